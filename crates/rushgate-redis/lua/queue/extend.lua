-- Extends the leases of claimed tasks, and stores their progress.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     lease: 10,000 to 86,400,000,000 µs; from now
-- ARGV[2..]   for each task, 1 to 1,000 of them:
--               id: name
--               claim: 0 to 2^53 - 1; the claim number
--               noted: 0 or 1; 1 to store the progress that follows, 0 to keep what was stored before
--               percent: 0 to 100 or ''; progress, '' if it is not known
--               note: label; what the task is doing
--
-- {outcome, ...}  one per task: 0 lost, 1 extended, 2 extended, and its cancellation was requested
--
-- flags: allow-oom
-- include: now
-- include: queue
local WIDTH, NO_PERCENT = 5, 255
local q = queue_keys(1)
if reap(q) then return AGAIN end
fetch_tasks(q, arguments(2, WIDTH))
local answer, till = {}, now + tonumber(ARGV[1])
for at = 2, #ARGV, WIDTH do
  local t, outcome = load(q, ARGV[at]), 0
  if t and has(t, LEASED) and t.claim == tonumber(ARGV[at + 1]) then
    t.till = till
    if ARGV[at + 2] == '1' then
      t.note = string.char(tonumber(ARGV[at + 3]) or NO_PERCENT) .. ARGV[at + 4]
      t.flags = bit.bor(t.flags, HAS_NOTE)
    end
    store_run(q, t)
    add_at(q.leases, till, lease_of(t))
    outcome = has(t, CANCEL_ASKED) and 2 or 1
  end
  table.insert(answer, outcome)
end
finish(q)
return answer
