-- Returns one dead letter.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     id: name
--
-- {id, dead letter}
-- {}                 not found
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local letter = redis.call('HGET', q.dead, ARGV[1])
return letter and { ARGV[1], letter } or {}
