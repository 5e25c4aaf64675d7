-- Events in order.
--
-- KEYS[1-8]  the sale (include/sale.lua)
-- ARGV[1]    secret
-- ARGV[2]    how many to leave out
-- ARGV[3]    how many come before the last one that is wanted
--
-- {event, ...}  as packed
-- include: now
-- include: queue
-- include: put
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
return redis.call('LRANGE', s.events, ARGV[2], ARGV[3])
