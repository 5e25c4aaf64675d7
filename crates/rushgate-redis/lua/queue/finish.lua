-- Completes claimed tasks as done or discarded, with their results, which are kept if the queue has a retention. For
-- one or more requests.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; '' for a further task of the same request
--                id: 1 to 200 bytes
--                claim: 1 to 16 bytes; the claim number, in digits
--                how: 0 or 1; 0 done, 1 discarded
--                result: body or ''; at most 64 KiB of payload, '' for none
--
-- {{outcome, ...}, ...}  one list per request, as `rushgate_1_queue_complete` answers
--
-- flags: allow-oom
-- include: now
-- include: complete
-- include: once
local WIDTH, RESULT_MAX = 5, 65536
for at = 5, #ARGV, WIDTH do
  local length = string.byte(ARGV[at]) or 0
  if #ARGV[at] > RESULT_MAX + 1 + (length < 255 and length or 0) then
    return { err = 'INVALID the result has more than 65,536 bytes; store it elsewhere' }
  end
end
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.finish, WIDTH)
local answered = remembered_all(once)
if once.known == #once.ops then return answered end
if reap(q) then return AGAIN end
fetch(q.runs, arguments(2, WIDTH))
local answers = complete_each(q, once, WIDTH)
finish(q)
return remember_all(once, answers)
