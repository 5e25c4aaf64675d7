-- Returns events of a queue, by number.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     after: 0 to 2^53 - 1; only numbers greater than this
-- ARGV[2]     at most: 1 to 1,000
--
-- {first, latest, number, event, ...}  first: number of the first event kept, or of the next one if none is
--                                      latest: number of the latest event of all
--                                      number: number of the first event in this answer; the others follow without gaps
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local first, latest = events.range(q)
local from, fields = math.max(first, tonumber(ARGV[1]) + 1), {}
for number = from, math.min(latest, from + tonumber(ARGV[2]) - 1) do
  fields[#fields + 1] = int(number)
end
local kept = #fields > 0 and redis.call('HMGET', q.events, unpack(fields)) or {}
return { first, latest, from, unpack(kept) }
