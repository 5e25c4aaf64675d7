-- Returns dead letters, ordered by id.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     after: name or ''; only ids greater than this
-- ARGV[2]     at most: 1 to 1,000
--
-- {id, dead letter, ...}
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local after = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local ids = redis.call('ZRANGEBYLEX', q.dead_ids, after, '+', 'LIMIT', '0', ARGV[2])
local answer = {}
local letters = #ids > 0 and redis.call('HMGET', q.dead, unpack(ids)) or {}
for at, id in ipairs(ids) do
  table.insert(answer, id)
  table.insert(answer, letters[at])
end
return answer
