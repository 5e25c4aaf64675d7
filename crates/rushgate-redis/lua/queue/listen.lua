-- A process waits for something to be given out: it is pushed at once, one process a task.
--
-- KEYS[1-21]  the queue (include/queue.lua)
-- ARGV[1]     inbox: 16 hexadecimal digits
-- ARGV[2]     seen: 0 to 9,007,199,254,740,991 or ''; wake-ups that the process knows of, '' if it does not know
--
-- {wake-ups that it missed, wake-ups}  if it missed any it is not waited for: it should look first
-- include: now
-- include: queue
local q = queue_keys(1)
local missed = ARGV[2] == '' and 0 or math.max(q.wakes - tonumber(ARGV[2]), 0)
if missed == 0 then
  redis.call('ZADD', q.listeners, now, ARGV[1])
end
return { missed, q.wakes }
