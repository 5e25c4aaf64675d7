-- Removes a task if it has not changed since it was read.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      id: name
-- ARGV[3]      revision: 0 to 2^53 - 1; as it was read
-- ARGV[4]      claim: 0 to 2^53 - 1; 0 if the task is not claimed
--
-- {outcome}  0 stale, 1 removed, 2 leased
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: once
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
local t, claim, outcome = load(q, ARGV[2]), tonumber(ARGV[4]), 0
if t then
  local leased, same = has(t, LEASED), t.revision == tonumber(ARGV[3])
  if leased and claim ~= 0 and t.claim == claim or not leased and claim == 0 and same then
    if not promote(q, t, true) then
      remove(q, t, true)
      events.note(q, now, t.id, END_DELETED)
      has_ended(q, t.id, now, END_DELETED, '')
    end
    outcome = 1
  elseif leased and claim == 0 and same then
    outcome = 2
  end
end
finish(q)
return remember(once, { outcome })
