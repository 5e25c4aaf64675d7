-- Reserves a queue for the orders of sales. This must happen before a sale with that queue is created.
--
-- KEYS[1-21]  the queue (include/queue.lua)
--
-- 1  reserved, by this or an earlier call
-- 0  the queue has been used for other tasks
-- include: now
-- include: queue
local q = queue_keys(1)
if q.reserved then return 1 end
if redis.call('EXISTS', q.meta) == 1 then return 0 end
redis.call('HSET', q.meta, 'n', 1, 'R', 1)
return 1
