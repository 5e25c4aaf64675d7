-- Stores the specification of a sale under its id, if the id is free.
--
-- KEYS[1]  the sale's home
-- ARGV[1]  specification: specification
--
-- 1  stored, by this or an earlier call
-- 0  another sale has the id
local home = redis.call('GET', KEYS[1])
if not home then
  redis.call('SET', KEYS[1], ARGV[1])
end
return (not home or home == ARGV[1]) and 1 or 0
