-- Ends expired leases.
--
-- KEYS[1-37]  the queue
--
-- now, µs
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
return now
