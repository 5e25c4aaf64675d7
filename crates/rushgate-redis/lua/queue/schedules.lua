-- Returns schedules, ordered by id.
--
-- KEYS[1-3]  the schedules
-- ARGV[1]    after: name or ''; only ids greater than this
-- ARGV[2]    limit: 1 to 10,000
--
-- {id, schedule, ...}
--
-- flags: no-writes
-- include: schedule
local of = schedule_keys(1)
local after = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local ids, answer = redis.call('ZRANGEBYLEX', of.ids, after, '+', 'LIMIT', '0', ARGV[2]), {}
for _, id in ipairs(ids) do
  answer[#answer + 1], answer[#answer + 2] = id, redis.call('HGET', of.schedules, id)
end
return answer
