-- Puts tasks in, in the order given.
--
-- KEYS[1-18]   the queue (include/queue.lua)
-- KEYS[19-20]  the client's latest answers (include/once.lua)
-- ARGV[1]      op: 8 bytes; new for each call of this client, the same when the call is sent again
-- ARGV[2..]    for each task, 1 to 1,000 of them:
--                id: name
--                due: due
--                priority: 0 to 9; 0 goes first
--                mode: 0 to 3; what becomes of it if the id is in already: 0 keep, 1 replace, 2 earliest, 3 debounce
--                max wait: 0 to 34,560,000,000,000 µs; of mode 3
--                max attempts: 1 to 1,000
--                body: body
--
-- {outcome, revision or bound, ...}  1 added, 2 kept, 3 replaced, each with a revision; 4 full, with the bound
-- include: now
-- include: put
-- include: once
local q, once = queue_keys(1), replay_keys(19, ARGV[1])
touch(q)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
answer = {}
fetch(q.records, arguments(2, 7))
for at = 2, #ARGV, 7 do
  local due = ARGV[at + 1]
  if due == '' then
    due = now
  elseif string.sub(due, 1, 1) == '+' then
    due = now + tonumber(string.sub(due, 2))
  end
  local outcome, number = put(q, {
    id = ARGV[at], due = tonumber(due), priority = tonumber(ARGV[at + 2]), mode = tonumber(ARGV[at + 3]),
    max_wait = tonumber(ARGV[at + 4]), max = tonumber(ARGV[at + 5]), body = ARGV[at + 6],
    flags = 0, attempts = 0,
  }, true)
  table.insert(answer, outcome)
  table.insert(answer, number)
end
finish(q)
return remember(once, answer)
