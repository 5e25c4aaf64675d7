-- Reserves a queue for the orders of sales. A sale is made after its orders' queue has been reserved.
--
-- KEYS[1-21]  the queue (include/queue.lua)
--
-- 1  it is reserved, now or before
-- 0  it has been used for other tasks
-- include: now
-- include: queue
local q = queue_keys(1)
if q.reserved then return 1 end
if redis.call('EXISTS', q.meta) == 1 then return 0 end
redis.call('HSET', q.meta, 'n', 1, 'R', 1)
return 1
