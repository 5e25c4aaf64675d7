-- Registers a process for one notification of the queue's next event.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     inbox: 16 hexadecimal digits
-- ARGV[2]     after: 0 to 2^53 - 1; the latest event that the process knows
--
-- 1  registered
-- 0  another event is the latest: read the events now
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
events.write(q)
local _, latest = events.range(q)
local is_latest = latest == tonumber(ARGV[2])
if is_latest then events.leave_inbox(q, '', ARGV[1]) end
finish(q)
return is_latest and 1 or 0
