-- Deletes a schedule. Tasks that it enqueued stay.
--
-- KEYS[1-3]  the schedules
-- ARGV[1]    id: name
--
-- 1  deleted
-- 0  not found
--
-- flags: allow-oom
-- include: schedule
local of = schedule_keys(1)
redis.call('ZREM', of.moments, ARGV[1])
redis.call('ZREM', of.ids, ARGV[1])
return redis.call('HDEL', of.schedules, ARGV[1])
