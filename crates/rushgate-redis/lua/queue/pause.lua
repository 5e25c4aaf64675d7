-- Pauses or resumes a queue.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     stop: 0 or 1; 1 to pause, 0 to resume
--
-- 1
-- include: now
-- include: queue
local q = queue_keys(1)
touch(q)
if reap(q) then return AGAIN end
q.paused = ARGV[1] == '1'
redis.call('HSET', q.meta, 'paused', ARGV[1])
write_back_queue(q)
if is_used(q, AT_ONCE) then q.woken = q.woken + math.max(at_once.length(q) - q.skipped, 0) end
for priority = 0, 9 do
  if is_used(q, priority) then
    q.woken = q.woken + redis.call('ZCOUNT', waiting(q, priority).key, '-inf', now_text())
  end
end
-- At least one process is woken, because none learned of due times during the pause.
q.woken = math.max(q.woken, 1)
finish(q)
return 1
