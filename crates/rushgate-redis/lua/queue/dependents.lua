-- Returns the live tasks that still wait for a task, by if-dead policy and then by arrival.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     id: name
-- ARGV[2]     at most: 1 to 1,000
--
-- {id, ...}
--
-- flags: allow-oom
-- include: now
-- include: queue
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local answer, with = {}, ARGV[1] .. '\0'
if not q.linked then return answer end
-- After the ID: a zero byte, the policy, the place.
local place_from = #with + 2
for _, member in ipairs(beginning(q.dependents, with, ARGV[2])) do
  local place = string.sub(member, place_from, place_from + PLACE_BYTES - 1)
  local id = string.sub(member, place_from + PLACE_BYTES)
  -- A link may outlive its task for a while.
  local record = read(q.records, id)
  if record and string.sub(record, 1, PLACE_BYTES) == place then answer[#answer + 1] = id end
end
return answer
