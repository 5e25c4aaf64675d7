-- Returns tasks by id.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     over: 0 or 1; 1 for finished tasks only
-- ARGV[2..]   for each task, 1 to 1,000 of them:
--               id: name
--
-- {now, id, record, run or '', moment, ...}  for each task that is live, or finished and kept:
--   record and run: as stored. Of a finished task, record is '' and run is its entry in `done`
--   moment: when a task with a key may be claimed, µs; '' if the task is blocked; 0 without a key, or if the task is
--   leased or finished
--
-- flags: allow-oom
-- include: now
-- include: look
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local answer = { now }
if ARGV[1] == '0' then fetch_tasks(q, arguments(2, 1)) end
for at = 2, #ARGV do
  local id = ARGV[at]
  local record, run, moment = ARGV[1] == '0' and read(q.records, id), '', 0
  if record then
    run = read(q.runs, id)
    run, moment = run or '', moment_shown(q, id, record, run)
  else
    record, run = '', finished.entry(q, id)
  end
  if run then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3], answer[#answer + 4] = id, record, run, moment
  end
end
return answer
