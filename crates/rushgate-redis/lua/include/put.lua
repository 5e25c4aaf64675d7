-- Putting a task in. Outcomes: 1 added, 2 kept, 3 replaced, each with a revision; 4 full, with the bound.
-- include: queue
local KEEP, REPLACE, EARLIEST, DEBOUNCE = 0, 1, 2, 3

-- A newcomer to a record that waits.
local function put_over(q, t, of, body)
  if of.mode == EARLIEST and of.due >= t.due then
    return 2, t.revision
  end
  q.revision, q.turn = q.revision + 1, nil
  local was_due = t.due <= now
  lift(q, t)
  t.revision = q.revision
  if of.mode == EARLIEST then
    t.due = of.due
    store_record(q, t, body_of(t.record))
    if t.ran then store_run(q, t) end
  else
    t.due, t.priority, t.max = of.due, of.priority, of.max
    if of.mode == DEBOUNCE then t.due = math.min(t.due, t.first + of.max_wait) end
    if t.ran then set_field(q.runs, t.id, false) end
    store_record(q, t, body)
  end
  wait(q, t.priority, t.due, place(t), not was_due)
  return 3, q.revision
end

-- A newcomer to a record that is leased: it waits behind the run.
local function put_behind(q, t, of, body)
  local next = has(t, REPLACED) and task_of(t.id, redis.call('HGET', q.newcomers, t.id))
  if next and (of.mode == KEEP or (of.mode == EARLIEST and of.due >= next.due)) then
    return 2, next.revision
  end
  q.revision, q.turn, q.changed = q.revision + 1, nil, true
  if next and of.mode == EARLIEST then
    body, next.due = body_of(next.record), of.due
  else
    next = { first = next and next.first or now, due = of.due, priority = of.priority, max = of.max }
    if of.mode == DEBOUNCE then next.due = math.min(next.due, next.first + of.max_wait) end
  end
  redis.call('HSET', q.newcomers, t.id,
    struct.pack(RECORD, 0, 0, q.revision, next.first, next.due, next.priority, next.max, body))
  if not has(t, REPLACED) then
    t.flags = t.flags + REPLACED
    store_run(q, t)
  end
  return 3, q.revision
end

-- Puts a task in on such terms.
local function put(q, id, of, body, bounded)
  local t = load(q, id)
  if not t then
    if bounded and is_full(q) then return 4, q.bound end
    q.size = q.size and q.size + 1
    begin(q, id, of, body)
    return 1, q.revision
  elseif of.mode == KEEP and not has(t, CANCELLED) then
    return 2, t.revision
  elseif has(t, LEASED) then
    return put_behind(q, t, of, body)
  end
  return put_over(q, t, of, body)
end
