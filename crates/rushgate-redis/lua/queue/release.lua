-- Returns claimed tasks to the queue. The attempt does not count.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2..]    for each task, 1 to 1,000 of them:
--                id: name
--                claim: 0 to 2^53 - 1; the claim number
--                delay: 0 to 34,560,000,000,000 µs
--
-- {outcome, ...}  one per task: 0 stale, 1 waiting, 2 canceled
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: once
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.release)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
answer = {}
fetch_tasks(q, arguments(2, 3))
for at = 2, #ARGV, 3 do
  local t, outcome = load(q, ARGV[at]), 0
  if t and has(t, LEASED) and t.claim == tonumber(ARGV[at + 1]) then
    if promote(q, t, true) then
      outcome = 1
    elseif has(t, CANCEL_ASKED) then
      finish_task(q, t, now, END_CANCELLED, '', true)
      outcome = 2
    else
      local delay, due = tonumber(ARGV[at + 2]), nil
      if delay > 0 then
        remember_run(t, now, RUN_SNOOZED, '')
        due = now + delay
      end
      events.note(q, now, t.id, events.released, t.attempts, due or t.due)
      t.attempts = t.attempts - 1
      back(q, t, due, true)
      outcome = 1
    end
  end
  table.insert(answer, outcome)
end
finish(q)
return remember(once, answer)
