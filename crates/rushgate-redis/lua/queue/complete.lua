-- Ends claimed tasks that are done, for one caller or several.
--
-- KEYS[1-18]   the queue (include/queue.lua)
-- KEYS[19-20]  the client's latest answers (include/once.lua)
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; of the request: new for each, the same when it is sent again; '' as the task before
--                id: name
--                claim: 0 to 9,007,199,254,740,991; 0 if it was not claimed
--
-- {{outcome, ...}, ...}  for each request: 0 stale, 1 done, 2 requeued
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: once
local WIDTH = 3
local q, once = queue_keys(1), replay_keys(19, ARGV[1], WIDTH)
allow_when_full(q)
local answered = remembered_all(once)
if once.known == #once.ops then return answered end
if reap(q) then return AGAIN end
fetch(q.runs, arguments(2, WIDTH))

local function complete(id, number)
  local run = read(q.runs, id)
  if not run then return 0 end
  local claim, turn, _, flags = struct.unpack('>I7I1I2I1', run)
  if claim + turn ~= tonumber(number) or bit.band(flags, LEASED) == 0 then return 0 end
  if bit.band(flags, REPLACED) ~= 0 then
    promote(q, load(q, id), true)
    return 2
  end
  take_out(q.leases, string.sub(run, 1, LEASE_BYTES) .. id)
  set_field(q.records, id, false)
  set_field(q.runs, id, false)
  return 1
end

local function answer_item(answer, at)
  answer[#answer + 1] = complete(ARGV[at + 1], ARGV[at + 2])
end

local answers = answer_each(once, WIDTH, answer_item)
finish(q)
return remember_all(once, answers)
