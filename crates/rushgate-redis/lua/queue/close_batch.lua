-- Closes an open batch: it accepts no more members, and runs when all that it waits for has ended.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      id: name
--
-- {outcome, left}  0 not found, 1 closed, 2 not open; left: how many tasks it still waits for
--
-- flags: allow-oom
-- include: now
-- include: wait
-- include: once
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
local t, outcome, left = load(q, ARGV[2]), 0, 0
if t then
  local place, policy = open_place(q, t.id)
  outcome = place and 1 or 2
  if place then
    redis.call('ZREM', q.dependencies, place .. policy)
    left = redis.call('ZLEXCOUNT', q.dependencies, '[' .. place, '(' .. place .. '\255')
    resume_if_free(q, t, now)
  end
end
finish(q)
return remember(once, { outcome, left })
