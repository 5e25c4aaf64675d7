-- Removes the first due tasks and returns them.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      how many: 1 to 1,000
--
-- {id, record, run or '', ...}
--
-- flags: allow-oom
-- include: now
-- include: assign
-- include: once
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.claim)
local answer = remembered(once)
if answer then return answer end
if prepare(q) then return AGAIN end
answer = {}
if not q.paused then
  local given = assign(q, tonumber(ARGV[2]), false)
  for at, id in ipairs(given.ids) do
    local record, run = given.records[at], given.runs[at]
    set_field(q.records, id, false)
    if run then set_field(q.runs, id, false) end
    if q.keep_n then events.tell(q, id, 'T' .. id) end
    events.note(q, now, id, END_POPPED)
    forget_waits(q, id, record)
    has_ended(q, id, now, END_POPPED, '')
    table.insert(answer, id)
    table.insert(answer, record)
    table.insert(answer, run or '')
  end
end
finish(q)
return remember(once, answer)
