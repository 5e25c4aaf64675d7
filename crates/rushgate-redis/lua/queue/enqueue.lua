-- Puts tasks in, in the order given, for one caller or several. Tasks that are put in together cost the server much less
-- than each by itself.
--
-- KEYS[1-18]   the queue (include/queue.lua)
-- KEYS[19-20]  the client's latest answers (include/once.lua)
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; of the request: new for each, the same when it is sent again; '' as the task before
--                id: name
--                terms: terms
--                body: body
--
-- {{outcome, revision or bound, ...}, ...}  for each request: 1 added, 2 kept, 3 replaced, each with a revision; 4 full,
--                                           with the bound
-- include: now
-- include: put
-- include: once
local WIDTH = 4
local q, once = queue_keys(1), replay_keys(19, ARGV[1], WIDTH)
touch(q)
local answered = remembered_all(once)
if once.known == #once.ops then return answered end
if reap(q) then return AGAIN end

-- What tasks ask for. Most ask for the same.
local known = {}
local function terms_of(text)
  local of = known[text]
  if not of then
    local plus, due, priority, mode, max_wait, max = string.match(text, '^(%+?)(%d+) (%d) (%d) (%d+) (%d+)$')
    due = tonumber(due)
    if plus == '+' then due = now + due end
    of = terms(due, tonumber(priority), tonumber(mode), tonumber(max_wait), tonumber(max))
    known[text] = of
  end
  return of
end

local function answer_item(answer, at)
  local n = #answer
  answer[n + 1], answer[n + 2] = put(q, ARGV[at + 1], terms_of(ARGV[at + 2]), ARGV[at + 3], true)
end

fetch(q.records, arguments(2, WIDTH))
local answers = answer_each(once, WIDTH, answer_item)
finish(q)
return remember_all(once, answers)
