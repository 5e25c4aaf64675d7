-- Enqueuing a task. Outcomes: 1 added, 2 kept, 3 replaced, each with the revision; 4 full, 5 dropped, each with the
-- capacity; 6 displaced, with the revision and the id of the task that was dropped.
-- include: queue
-- include: move
local KEEP, REPLACE, EARLIEST, DEBOUNCE = 0, 1, 2, 3

-- Applies a second enqueue to a task that waits.
local function put_over(q, t, of, body)
  if of.mode == EARLIEST then
    if of.due >= t.due then return 2, t.revision end
    move(q, t, of.due)
    return 3, q.revision
  end
  q.revision, q.turn = q.revision + 1, nil
  -- A task with a key may be blocked although it is due.
  local was_due = not t.key and t.due <= now
  detach(q, t)
  t.revision = q.revision
  t.due, t.priority, t.max, t.key, t.deadline = of.due, of.priority, of.max, of.key, of.deadline
  if of.mode == DEBOUNCE then t.due = math.min(t.due, t.first + of.max_wait) end
  t.asked, t.flags = t.due, 0
  if t.ran then set_field(q.runs, t.id, false) end
  store_record(q, t, body)
  events.note(q, now, t.id, events.replaced, 0, t.due)
  stand(q, t, not was_due)
  return 3, q.revision
end

-- Applies a second enqueue to a leased task: it becomes the pending replacement, which takes over when the run ends.
local function put_behind(q, t, of, body)
  local next = has(t, REPLACED) and task_of(t.id, redis.call('HGET', q.newcomers, t.id))
  if next and (of.mode == KEEP or (of.mode == EARLIEST and of.due >= next.due)) then
    return 2, next.revision
  end
  q.revision, q.turn, q.changed = q.revision + 1, nil, true
  if next and of.mode == EARLIEST then
    body, next.due = body_of(next.record), of.due
  else
    next = {
      first = next and next.first or now, due = of.due, priority = of.priority, max = of.max, key = of.key,
      deadline = of.deadline,
    }
    if of.mode == DEBOUNCE then next.due = math.min(next.due, next.first + of.max_wait) end
  end
  redis.call('HSET', q.newcomers, t.id,
    struct.pack(RECORD, 0, 0, q.revision, next.first, priority_byte(next), next.max, next.due, body))
  if not has(t, REPLACED) then
    t.flags = t.flags + REPLACED
    store_run(q, t)
  end
  events.note(q, now, t.id, events.replaced, 0, next.due)
  return 3, q.revision
end

local function count_dropped(q)
  q.dropped = (q.dropped or 0) + 1
end

-- Drops the oldest task that waits and returns its id, or nil if there is none. While the index by age is incomplete,
-- the oldest task is not known.
local function drop_oldest(q)
  if redis.call('HEXISTS', q.meta, 'age_cursor') == 1 then return nil end
  local oldest = redis.call('ZRANGE', q.by_age, '0', '0')[1]
  if not oldest then return nil end
  local t = load(q, oldest)
  finish_task(q, t, now, END_DROPPED, '', true)
  count_dropped(q)
  return t.id
end

-- Applies the overflow policy to a new task for which the queue has no room.
local function put_too_many(q, id, of, body)
  if q.overflow == DROP_NEW then
    count_dropped(q)
    events.note(q, now, id, END_DROPPED)
    return 5, q.bound
  end
  local dropped = q.overflow == DROP_OLDEST and drop_oldest(q)
  if not dropped then return 4, q.bound end
  begin(q, id, of, body)
  return 6, q.revision, dropped
end

-- Enqueues a task. With `bounded`, the capacity of the queue applies.
local function put(q, id, of, body, bounded)
  local t = load(q, id)
  if not t then
    if bounded and is_full(q) then return put_too_many(q, id, of, body) end
    begin(q, id, of, body)
    return 1, q.revision
  elseif of.mode == KEEP and not has(t, CANCEL_ASKED) then
    return 2, t.revision
  elseif has(t, LEASED) then
    return put_behind(q, t, of, body)
  end
  return put_over(q, t, of, body)
end
