-- Tasks in answers: the id, the record, the run, and when the task may be claimed.
-- include: queue

-- The moment of a live task in answers. Most tasks have none, which their records tell at once.
local function moment_shown(q, id, record, run)
  local byte = string.byte(record, PRIORITY_AT)
  if byte >= LINKED then return '' end
  if byte % LISTED < KEYED then return 0 end
  local t = task_of(id, record, run)
  if has(t, LEASED) then return 0 end
  local line = read_line(q, line_name(t.key, t.priority))
  return line.first == stand_of(t) and line.moment > 0 and int(line.moment - 1) or ''
end
