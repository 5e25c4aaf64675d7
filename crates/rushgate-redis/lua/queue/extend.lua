-- Starts the leases of claimed tasks anew.
--
-- KEYS[1-18]  the queue (include/queue.lua)
-- ARGV[1]     lease: 10,000 to 86,400,000,000 µs; from now
-- ARGV[2..]   for each task, 1 to 1,000 of them:
--               id: name
--               claim: 0 to 9,007,199,254,740,991; 0 if it was not claimed
--
-- {outcome, ...}  0 lost, 1 extended, 2 extended and to be cancelled
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
allow_when_full(q)
if reap(q) then return AGAIN end
fetch_tasks(q, arguments(2, 2))
local answer, till = {}, now + tonumber(ARGV[1])
for at = 2, #ARGV, 2 do
  local t, outcome = load(q, ARGV[at]), 0
  if t and has(t, LEASED) and t.claim == tonumber(ARGV[at + 1]) then
    t.till = till
    store_run(q, t)
    add_at(q.leases, till, lease_of(t))
    outcome = has(t, CANCELLED) and 2 or 1
  end
  table.insert(answer, outcome)
end
finish(q)
return answer
