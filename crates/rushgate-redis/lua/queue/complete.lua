-- Ends claimed tasks that are done, for one caller or several. What they came to is said by `queue_finish`.
--
-- KEYS[1-21]   the queue (include/queue.lua)
-- KEYS[22-23]  the client's latest answers (include/once.lua)
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; of the request: new for each, the same when it is sent again; '' as the task before
--                id: name
--                claim: 0 to 9,007,199,254,740,991; 0 if it was not claimed
--
-- {{outcome, ...}, ...}  for each request: 0 stale, 1 done, 2 requeued
--
-- flags: allow-oom
-- include: now
-- include: complete
-- include: once
local WIDTH = 3
local q, once = queue_keys(1), replay_keys(22, ARGV[1], WIDTH)
allow_when_full(q)
local answered = remembered_all(once)
if once.known == #once.ops then return answered end
if reap(q) then return AGAIN end
fetch(q.runs, arguments(2, WIDTH))

local function answer_item(answer, at)
  answer[#answer + 1] = complete(q, ARGV[at + 1], ARGV[at + 2], ends_as.done, '')
end

local answers = answer_each(once, WIDTH, answer_item)
finish(q)
return remember_all(once, answers)
