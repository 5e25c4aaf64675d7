-- Completes claimed tasks, for one or more requests. `rushgate_1_queue_finish` also stores results.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; '' for a further task of the same request
--                id: 1 to 200 bytes
--                claim: 1 to 16 bytes; the claim number, in digits
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
local answers = complete_each(q, once, WIDTH)
finish(q)
return remember_all(once, answers)
