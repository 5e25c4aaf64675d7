-- Putting a task in. Outcomes: 1 added, 2 kept, 3 replaced, each with a revision; 4 full, with the bound.
-- include: queue
local KEEP, REPLACE, EARLIEST, DEBOUNCE = 0, 1, 2, 3

-- A newcomer to a record that waits.
local function put_over(q, t, task)
  if task.mode == EARLIEST and task.due >= t.due then
    return 2, t.revision
  end
  q.revision = q.revision + 1
  local was_due = t.due <= now
  lift(q, t)
  t.revision = q.revision
  if task.mode == EARLIEST then
    t.due = task.due
    store_record(q, t, body_of(t.record))
    if t.ran then store_run(q, t) end
  else
    t.due, t.priority, t.max = task.due, task.priority, task.max
    if task.mode == DEBOUNCE then t.due = math.min(t.due, t.first + task.max_wait) end
    if t.ran then set_field(q.runs, t.id, false) end
    store_record(q, t, task.body)
  end
  wait(q, t, not was_due)
  return 3, q.revision
end

-- A newcomer to a record that is leased: it waits behind the run.
local function put_behind(q, t, task)
  local next = has(t, REPLACED) and task_of(t.id, redis.call('HGET', q.newcomers, t.id))
  if next and (task.mode == KEEP or (task.mode == EARLIEST and task.due >= next.due)) then
    return 2, next.revision
  end
  q.revision, q.changed = q.revision + 1, true
  local body = task.body
  if next and task.mode == EARLIEST then
    body, next.due = body_of(next.record), task.due
  else
    next = { first = next and next.first or now, due = task.due, priority = task.priority, max = task.max }
    if task.mode == DEBOUNCE then next.due = math.min(next.due, next.first + task.max_wait) end
  end
  local header = struct.pack(HEADER, q.revision, next.first, next.due, 0, next.priority, next.max)
  redis.call('HSET', q.newcomers, t.id, header .. body)
  if not has(t, REPLACED) then
    t.flags = t.flags + REPLACED
    store_run(q, t)
  end
  return 3, q.revision
end

-- `task` has id, due, priority, mode, max_wait, max and body.
local function put(q, task, bounded)
  local t = load(q, task.id)
  if not t then
    if bounded and is_full(q) then return 4, q.bound end
    q.size = q.size and q.size + 1
    q.revision = q.revision + 1
    task.revision, task.first = q.revision, now
    begin(q, task, task.body, true)
    return 1, q.revision
  elseif task.mode == KEEP and not has(t, CANCELLED) then
    return 2, t.revision
  elseif has(t, LEASED) then
    return put_behind(q, t, task)
  end
  return put_over(q, t, task)
end
