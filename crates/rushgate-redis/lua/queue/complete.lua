-- Ends claimed tasks that are done.
--
-- KEYS[1-18]   the queue (include/queue.lua)
-- KEYS[19-20]  the client's latest answers (include/once.lua)
-- ARGV[1]      op: 8 bytes; new for each call of this client, the same when the call is sent again
-- ARGV[2..]    for each task, 1 to 1,000 of them:
--                id: name
--                claim: 0 to 9,007,199,254,740,991; 0 if it was not claimed
--
-- {outcome, ...}  0 stale, 1 done, 2 requeued
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: once
local q, once = queue_keys(1), replay_keys(19, ARGV[1])
allow_when_full(q)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
answer = {}
local ids = arguments(2, 2)
fetch(q.runs, ids)
for at, id in ipairs(ids) do
  local run, outcome = read(q.runs, id), 0
  local _, flags, claim
  if run then _, flags, claim = struct.unpack(RUN, run) end
  if run and claim == tonumber(ARGV[2 * at + 1]) and bit.band(flags, LEASED) ~= 0 then
    if bit.band(flags, REPLACED) ~= 0 then
      promote(q, load(q, id), true)
      outcome = 2
    else
      take_out(q.leases, struct.pack('>I7', claim) .. id)
      set_field(q.records, id, false)
      set_field(q.runs, id, false)
      outcome = 1
    end
  end
  answer[at] = outcome
end
finish(q)
return remember(once, answer)
