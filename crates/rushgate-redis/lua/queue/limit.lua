-- Sets the queue's bound.
--
-- KEYS[1-18]  the queue (include/queue.lua)
-- ARGV[1]     bound: 0 to 9,007,199,254,740,991 or ''; '' for none
--
-- 1
-- include: now
-- include: queue
local q = queue_keys(1)
touch(q)
if reap(q) then return AGAIN end
redis.call('HSET', q.meta, 'b', ARGV[1])
finish(q)
return 1
