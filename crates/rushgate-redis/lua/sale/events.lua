-- Returns events of a sale, in order.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    skip: 0 to 2^53 - 1; how many events to skip
-- ARGV[3]    last: 0 to 2^53 - 1; how many events precede the last one to return
--
-- {event, ...}
--
-- flags: no-writes
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
return redis.call('LRANGE', s.events, ARGV[2], ARGV[3])
