-- Registers a process for one notification that a task has finished. The queue needs a retention.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     inbox: 16 hexadecimal digits
-- ARGV[2]     id: name
--
-- 1  registered
-- 0  the task is not live, or the queue has no retention: read the task now
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
local awaited = q.keep_n and redis.call('HEXISTS', q.records.key, ARGV[2]) == 1
if awaited then events.leave_inbox(q, ARGV[2], ARGV[1]) end
finish(q)
return awaited and 1 or 0
