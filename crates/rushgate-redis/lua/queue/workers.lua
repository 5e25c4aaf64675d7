-- Returns workers that live, ordered by id.
--
-- KEYS[1-3]  the workers
-- ARGV[1]    after: name or ''; only ids greater than this
-- ARGV[2]    limit: 1 to 10,000
--
-- {id, worker, ...}
--
-- flags: no-writes
-- include: now
-- include: worker
local of = worker_keys(1)
local after, limit = ARGV[1] == '' and '-' or '(' .. ARGV[1], tonumber(ARGV[2])
local answer = {}
for _, id in ipairs(redis.call('ZRANGEBYLEX', of.ids, after, '+')) do
  local worker = read_worker(of, id)
  if worker then answer[#answer + 1], answer[#answer + 2] = id, worker.packed end
  if #answer == 2 * limit then break end
end
return answer
