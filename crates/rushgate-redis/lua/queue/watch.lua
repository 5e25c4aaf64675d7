-- A process waits for a task to be over: it is pushed at then. Nobody is told unless the queue has a retention.
--
-- KEYS[1-21]  the queue (include/queue.lua)
-- ARGV[1]     inbox: 16 hexadecimal digits
-- ARGV[2]     id: name
--
-- 1  it will be told
-- 0  the task is not live, or nobody is told: look at once
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
local awaited = q.keep_n and redis.call('HEXISTS', q.records.key, ARGV[2]) == 1
if awaited then
  local field = '\0w' .. ARGV[2]
  local inboxes = read(q.keys, field) or ''
  -- Of many that came and went without a word the latest are told; others look by themselves after a while.
  local kept_bytes = 16 * 63
  if not string.find(inboxes, ARGV[1], 1, true) then
    set_field(q.keys, field, string.sub(inboxes, -kept_bytes) .. ARGV[1])
  end
end
finish(q)
return awaited and 1 or 0
