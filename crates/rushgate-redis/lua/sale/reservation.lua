-- Returns one reservation.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    reservation: 16 bytes
--
-- {hold}
-- {}      not found
--
-- flags: no-writes
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local packed = read(s.holds, ARGV[2])
return packed and { packed } or {}
