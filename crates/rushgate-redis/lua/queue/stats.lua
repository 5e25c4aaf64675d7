-- Returns how many tasks are in each state, and the settings of the queue.
--
-- KEYS[1-37]  the queue
--
-- {ready, scheduled, leased, blocked, dead, done, dropped, lag, rate until, latest claim, paused, bound, limits}
--   dropped: in total; lag: how long the oldest due task has been due, µs; rate until: when the rate allows more, or ''
--   paused: 1 or 0; bound: the capacity, or ''; limits: the others, as in the field `limits` of meta, or ''
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
local first_listed = at_once.head(q)
finish(q)
local all, oldest, free = first_listed and at_once.length(q) - q.skipped or 0, first_listed or now, free_from(q)
local ready = oldest <= now and all or 0
for priority = 0, 9 do
  if is_used(q, priority) then
    local set = waiting(q, priority).key
    ready = ready + redis.call('ZCOUNT', set, '-inf', now_text())
    all = all + redis.call('ZCARD', set)
    oldest = math.min(oldest, tonumber(redis.call('ZRANGE', set, '0', '0', 'WITHSCORES')[2]) or now)
  end
end
local done = q.keep_n and finished.count(q) - finished.count(q, now - q.keep_us) or 0
return {
  ready, all - ready, redis.call('ZCARD', q.leases.key),
  redis.call('ZCARD', q.blocked) + redis.call('ZCARD', q.held) - q.lines_waiting,
  redis.call('ZCARD', q.dead_ids), done, tonumber(redis.call('HGET', q.meta, 'dropped') or 0),
  math.max(now - oldest, 0), free > now and int(free) or '',
  int(q.claim), q.paused and 1 or 0, q.bound and int(q.bound) or '',
  redis.call('HGET', q.meta, 'limits') or '',
}
