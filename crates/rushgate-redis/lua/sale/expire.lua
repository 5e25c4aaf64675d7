-- Expires holds whose deadline has passed, by deadline.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     at most: 1 to 1,000
--
-- expired  how many
--
-- flags: allow-oom
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if s.halted then return 0 end
local expired = expired_holds(s, ARGV[2])
if #expired == 0 then return 0 end
expire(s, expired)
close_sale(s)
return #expired
