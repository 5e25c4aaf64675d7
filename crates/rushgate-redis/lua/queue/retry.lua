-- Ends claimed tasks that failed: each is retried after a delay or becomes a dead letter.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2..]    for each task, 1 to 1,000 of them:
--                id: name
--                claim: 0 to 2^53 - 1; the claim number
--                delay: 0 to 34,560,000,000,000 µs
--                give up: 0 or 1; 1 to make it a dead letter now
--                error: text of at most 2,000 bytes
--
-- {outcome, due or 0, ...}  for each task: 0 stale, 1 scheduled, 2 dead, 3 requeued, because a pending replacement took
--                           over, 4 canceled
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: once
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.retry)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
answer = {}
fetch_tasks(q, arguments(2, 5))
for at = 2, #ARGV, 5 do
  local t, outcome, due = load(q, ARGV[at]), 0, 0
  if t and has(t, LEASED) and t.claim == tonumber(ARGV[at + 1]) then
    if promote(q, t, true) then
      outcome = 3
    elseif has(t, CANCEL_ASKED) then
      finish_task(q, t, now, END_CANCELLED, '', true)
      outcome = 4
    elseif ARGV[at + 3] == '1' or t.attempts >= t.max
      or t.deadline and t.deadline <= now + tonumber(ARGV[at + 2]) then
      remember_run(t, now, RUN_FAILED, ARGV[at + 4])
      die(q, t, now, ARGV[at + 4], true)
      outcome = 2
    else
      due = now + tonumber(ARGV[at + 2])
      remember_run(t, now, RUN_FAILED, ARGV[at + 4])
      events.note(q, now, t.id, events.failed, t.attempts, due, cut_error(ARGV[at + 4]))
      t.error, t.flags = ARGV[at + 4], bit.bor(t.flags, FAILED)
      back(q, t, due, true)
      outcome = 1
    end
  end
  table.insert(answer, outcome)
  table.insert(answer, due)
end
finish(q)
return remember(once, answer)
