-- Returns the finished dependencies of a task, ordered by id.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     id: name
-- ARGV[2]     after: name or ''; only ids greater than this
-- ARGV[3]     at most: 1 to 100
--
-- {id, finished(7) how(1) result or error, ...}
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local record, answer = q.linked and read(q.records, ARGV[1]), {}
if not record then return answer end
local with = string.sub(record, 1, PLACE_BYTES)
local from = (ARGV[2] == '' and '[' or '(') .. with .. ARGV[2]
local fields = redis.call('ZRANGEBYLEX', q.result_ids, from, '(' .. with .. '\255', 'LIMIT', '0', ARGV[3])
local kept = #fields > 0 and redis.call('HMGET', q.results, unpack(fields)) or {}
for at, field in ipairs(fields) do
  answer[2 * at - 1], answer[2 * at] = string.sub(field, #with + 1), kept[at]
end
return answer
