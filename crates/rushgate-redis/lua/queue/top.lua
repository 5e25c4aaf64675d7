-- Returns the first due tasks without claiming them.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     how many: 1 to 1,000
--
-- {id, record, run or '', ...}
--
-- flags: allow-oom
-- include: now
-- include: assign
local q = queue_keys(1)
if prepare(q) then return AGAIN end
local answer = {}
local found = due_tasks(q, tonumber(ARGV[1]))
finish(q)
for at, id in ipairs(found.ids) do
  table.insert(answer, id)
  table.insert(answer, found.records[at])
  table.insert(answer, found.runs[at] or '')
end
return answer
