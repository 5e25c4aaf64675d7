-- Returns the schedules that are due, by moment, and when the next one will be.
--
-- KEYS[1-3]  the schedules
-- ARGV[1]    how many: 1 to 1,000
--
-- {now, next or 0, id, schedule, ...}
--
-- flags: no-writes
-- include: now
-- include: schedule
local of = schedule_keys(1)
local ids = redis.call('ZRANGEBYSCORE', of.moments, '-inf', now_text(), 'LIMIT', '0', ARGV[1])
local after = redis.call('ZRANGE', of.moments, #ids, #ids, 'WITHSCORES')
local answer = { now, tonumber(after[2]) or 0 }
for _, id in ipairs(ids) do
  answer[#answer + 1], answer[#answer + 2] = id, redis.call('HGET', of.schedules, id)
end
return answer
