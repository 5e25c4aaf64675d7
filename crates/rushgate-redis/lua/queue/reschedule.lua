-- Changes when a waiting task is due.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      id: name
-- ARGV[3]      due: 0 to 2^53 - 1 µs
-- ARGV[4]      from now: 0 or 1; 1 if the due time counts from now
--
-- {outcome, time or 0}  0 not found, 1 rescheduled, with the due time, 2 leased, 3 too late, with the deadline
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: move
-- include: once
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
local t, due = load(q, ARGV[2]), tonumber(ARGV[3])
if ARGV[4] == '1' then due = now + due end
local outcome, time = 0, 0
if t and has(t, LEASED) then
  outcome = 2
elseif t and t.deadline and t.deadline <= due then
  outcome, time = 3, t.deadline
elseif t then
  move(q, t, due)
  outcome, time = 1, due
end
finish(q)
return remember(once, { outcome, time })
