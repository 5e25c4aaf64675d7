-- Reserves a queue for the orders of sales. This must happen before a sale with that queue is created. Only a call that
-- may change orders (include/queue.lua) takes over a queue that was used for other tasks: the sale exists, and the store
-- lost the reservation. The order worker sets the other tasks aside.
--
-- KEYS[1-21]  the queue (include/queue.lua)
--
-- 1  reserved, by this or an earlier call
-- 0  the queue has been used for other tasks
-- include: now
-- include: queue
local q = queue_keys(1)
if q.reserved then return 1 end
if redis.call('EXISTS', q.meta) == 1 and KEYS[#KEYS] ~= q.meta .. ':orders' then return 0 end
redis.call('HSET', q.meta, 'n', 1, 'R', 1)
return 1
