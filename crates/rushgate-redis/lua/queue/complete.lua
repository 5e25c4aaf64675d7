-- Completes claimed tasks, for one or more requests. `rushgate_1_queue_finish` also stores results.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; '' for a further task of the same request
--                id: name
--                claim: 0 to 2^53 - 1; the claim number
--
-- {{outcome, ...}, ...}  one list per request: 0 stale, 1 done, 2 requeued, because a pending replacement took over
--
-- flags: allow-oom
-- include: now
-- include: complete
-- include: once
local WIDTH = 3
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.complete, WIDTH)
local answered = remembered_all(once)
if once.known == #once.ops then return answered end
if reap(q) then return AGAIN end
fetch(q.runs, arguments(2, WIDTH))

local function answer_item(answer, at)
  answer[#answer + 1] = complete(q, ARGV[at + 1], ARGV[at + 2], END_DONE, '')
end

local answers = answer_each(once, WIDTH, answer_item)
finish(q)
return remember_all(once, answers)
