-- Answers requests that were executed before, as `rushgate_1_queue_enqueue` does, when the server's memory is full. For a
-- new request, the error is `OOM`.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- KEYS[40]     the uniqueness windows
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; '' for a further task of the same request
--                id: name
--                terms: terms
--                body: body
--
-- {{outcome, ...}, ...}  one list per request, as `rushgate_1_queue_enqueue` answers
--
-- flags: no-writes
-- include: now
-- include: once
local once = replay_keys(38, ARGV[1], op_of.enqueue, 4)
local answered = remembered_all(once)
return once.known == #once.ops and answered or FULL
