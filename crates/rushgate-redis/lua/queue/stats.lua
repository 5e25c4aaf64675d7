-- Lengths by state.
--
-- KEYS[1-18]  the queue (include/queue.lua)
--
-- {ready, scheduled, leased, dead, age of the oldest due task in µs, 1 if paused, bound or ''}
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local ready, all, oldest = 0, 0, now
for priority = 0, 9 do
  if is_used(q, priority) then
    local set = waiting(q, priority).key
    ready = ready + redis.call('ZCOUNT', set, '-inf', int(now))
    all = all + redis.call('ZCARD', set)
    oldest = math.min(oldest, tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]) or now)
  end
end
return {
  ready, all - ready, redis.call('ZCARD', q.leases.key), redis.call('ZCARD', q.dead_ids), now - oldest,
  q.paused and 1 or 0, q.bound and int(q.bound) or '',
}
