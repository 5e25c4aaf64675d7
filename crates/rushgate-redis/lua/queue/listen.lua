-- Registers a process for one notification that a task can be claimed. Each task wakes one process.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     inbox: 16 hexadecimal digits
-- ARGV[2]     seen: 0 to 2^53 - 1 or ''; the wake-up count that the process knows, '' for none
--
-- {missed, wake-ups}  if the process missed wake-ups it is not registered: claim first
-- include: now
-- include: queue
local q = queue_keys(1)
local missed = ARGV[2] == '' and 0 or math.max(q.wakes - tonumber(ARGV[2]), 0)
if missed == 0 then
  redis.call('ZADD', q.listeners, now, ARGV[1])
end
return { missed, q.wakes }
