-- Enqueues tasks in the order given, for one or more requests.
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
-- {{outcome, ...}, ...}  one list per request. It has for each task:
--   1, revision      added
--   2, revision      kept: the task under this id stays as it is
--   3, revision      replaced
--   4, capacity      full
--   5, capacity      dropped, because the queue is full
--   6, revision, id  added, and the task with that id was dropped for it
--   7, until         enqueued recently: the id is unique until then, µs
--   8, reason, id    refused. 0: the dependency with that id is unknown. 1: the batch with that id is not
--                    open. 2: a task with that id is in the way
-- include: now
-- include: put
-- include: asked
-- include: once
local WIDTH = 4
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.enqueue, WIDTH)
local answered = remembered_all(once)
if once.known == #once.ops then return answered end
for request = 1, #once.ops do
  local from, to = once.firsts[request], (once.firsts[request + 1] or #ARGV + 1) - 1
  if not answered[request] and asks_too_late(q, from + 2, to, WIDTH) then return TOO_LATE end
end
touch(q)
if reap(q) then return AGAIN end

local function answer_item(answer, at)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = put_asked(q, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
end

local ids = arguments(2, WIDTH)
fetch(q.records, ids)
fetch_unique(q, KEYS[40], ids)
local answers = answer_each(once, WIDTH, answer_item)
write_periods(q)
finish(q)
return remember_all(once, answers)
