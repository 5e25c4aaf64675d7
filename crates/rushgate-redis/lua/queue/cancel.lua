-- Cancels a task, whatever its revision: removes it, or marks it if it is leased.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      id: name
--
-- {outcome}  0 not found, 1 removed, 2 marked
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: once
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
local t, outcome = load(q, ARGV[2]), 0
if t and has(t, LEASED) then
  if has(t, REPLACED) then
    redis.call('HDEL', q.newcomers, t.id)
    t.flags = t.flags - REPLACED
  end
  t.flags = bit.bor(t.flags, CANCEL_ASKED)
  store_run(q, t)
  events.note(q, now, t.id, events.cancel_asked)
  outcome = 2
elseif t then
  finish_task(q, t, now, END_CANCELLED, '', true)
  outcome = 1
end
finish(q)
return remember(once, { outcome })
