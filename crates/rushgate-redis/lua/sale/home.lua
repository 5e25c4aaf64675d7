-- Enters a sale's specification under its id, if the id is free.
--
-- KEYS[1]  the sale's home
-- ARGV[1]  specification: specification
--
-- 1  it is there, now or before
-- 0  another one has the id
local home = redis.call('GET', KEYS[1])
if not home then
  redis.call('SET', KEYS[1], ARGV[1])
end
return (not home or home == ARGV[1]) and 1 or 0
