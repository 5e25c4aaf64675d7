-- Puts tasks in, in the order given, for one caller or several. Tasks that are put in together cost the server much less
-- than each by itself.
--
-- KEYS[1-21]   the queue (include/queue.lua)
-- KEYS[22-23]  the client's latest answers (include/once.lua)
-- KEYS[24]     the unique ids (include/unique.lua)
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; of the request: new for each, the same when it is sent again; '' as the task before
--                id: name
--                terms: terms
--                body: body
--
-- {{outcome, revision or bound, ...}, ...}  for each request: 1 added, 2 kept, 3 replaced, each with a revision; 4 full,
--                                           5 dropped, each with the bound; 6 displaced, with the revision
--                                           and then the id of what was dropped for it; 7 put in lately, with the
--                                           moment in µs until which the id is unique; 8 refused, with 0 if the queue knows
--                                           no task that it was to wait for, 1 if what it was to be part of is not held open,
--                                           2 if a task of its id is in the way, and then the id of which task
-- include: now
-- include: put
-- include: asked
-- include: once
local WIDTH = 4
local q, once = queue_keys(1), replay_keys(22, ARGV[1], WIDTH)
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
fetch_unique(q, KEYS[24], ids)
local answers = answer_each(once, WIDTH, answer_item)
write_periods(q)
finish(q)
return remember_all(once, answers)
