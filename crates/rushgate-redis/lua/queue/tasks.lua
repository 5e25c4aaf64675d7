-- Looks at tasks by id.
--
-- KEYS[1-18]  the queue (include/queue.lua)
-- ARGV[1..]   for each task, 1 to 1,000 of them:
--               id: name
--
-- {now, id, record, run or '', ...}  those that are in
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local answer = { now }
local records, runs = redis.call('HMGET', q.records.key, unpack(ARGV)), redis.call('HMGET', q.runs.key, unpack(ARGV))
for at = 1, #ARGV do
  if records[at] then
    table.insert(answer, ARGV[at])
    table.insert(answer, records[at])
    table.insert(answer, runs[at] or '')
  end
end
return answer
