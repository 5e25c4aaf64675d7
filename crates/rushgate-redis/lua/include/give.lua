-- Choosing the tasks that a claim or a pop returns.
-- include: queue

-- Counts tasks that start now against a rate limit. The history is written once, when the call ends.
local function count_starts(q, key, n, per, given)
  if not n or given == 0 then return end
  local of = hash_of(q, 'starts')
  local starts = q.started[key or ''] or read(of, key or '') or ''
  q.started[key or ''] = string.sub(starts .. string.rep(struct.pack('>I7', now), given), -7 * n)
  if key then
    -- Each new entry deletes up to two expired ones, so that they do not accumulate.
    for _, other in ipairs(redis.call('ZRANGEBYSCORE', q.starts_until, '-inf', now_text(), 'LIMIT', '0', 2)) do
      redis.call('ZREM', q.starts_until, other)
      if other ~= key then set_field(of, other, false) end
    end
    redis.call('ZADD', q.starts_until, int(now + per), key)
  end
end

-- How many tasks the limits of the whole queue allow to start now.
local function allowed(q)
  local most = math.huge
  if q.concurrency then
    write_back(q.leases)
    most = math.max(q.concurrency - redis.call('ZCARD', q.leases.key), 0)
  end
  if q.rate_n then
    local starts, since = read(hash_of(q, 'starts'), '') or '', now - q.rate_us
    -- Binary search for the first start that is still within the period.
    local from, to = 1, #starts / 7 + 1
    while from < to do
      local at = math.floor((from + to) / 2)
      if struct.unpack('>I7', starts, 7 * at - 6) > since then to = at else from = at + 1 end
    end
    most = math.min(most, q.rate_n - (#starts / 7 + 1 - from))
  end
  return most
end

-- The first due tasks in claim order: their ids, records and runs.
local function due_tasks(q, n)
  write_back_queue(q)
  local ids = {}
  for priority = 0, 9 do
    if #ids < n and is_used(q, priority) then
      local places = redis.call('ZRANGEBYSCORE', waiting(q, priority).key, '-inf', now_text(), 'LIMIT', '0', n - #ids)
      for _, at in ipairs(places) do
        ids[#ids + 1] = string.sub(at, PLACE_BYTES + 1)
      end
    end
  end
  if #ids == 0 then return {}, {}, {} end
  return ids, redis.call('HMGET', q.records.key, unpack(ids)), redis.call('HMGET', q.runs.key, unpack(ids))
end

-- A claimer that got as many tasks as it asked for may have no time for the next one. Wakes a process for that, unless
-- the task was due when it was enqueued, because that woke a process.
local function pass_on(q)
  if redis.call('ZCARD', q.listeners) == 0 then return end
  local _, records, runs = due_tasks(q, 1)
  local record = records[1]
  if record and not runs[1] and string.sub(record, DUE_FROM, DUE_TO) <= string.sub(record, FIRST_FROM, DUE_FROM - 1) then
    return
  end
  if record or next_waiting(q) then ring(q, 1) end
end

-- A task with a key was claimed or popped: counts it against the limits of its key, and moves its key group to the end.
local function take_turn(q, t, leased)
  local name = line_name(t.key, t.priority)
  redis.call('ZREM', q.blocked, name .. stand_of(t))
  local line = read_line(q, name)
  q.arrival, q.turn, q.lines_waiting = q.arrival + 1, nil, q.lines_waiting - 1
  line.turn, line.place, line.moment, line.first = now, struct.pack('>I6', q.arrival) .. '\0', 0, ''
  store_line(q, name, line)
  if q.fresh[name] then q.woken = q.woken - 1 end
  if leased then count_leased(q, t.key, 1) end
  count_starts(q, t.key, q.key_rate_n, q.key_rate_us, 1)
  touch_line(q, t)
  seat_touched(q, true)
end

-- Removes the first due tasks from the waiting sets, in order, and returns their ids, records and runs. When a key
-- group has had its turn, its priority is read again, because the group may have another due task.
local function give_out(q, n, leased)
  write_back_queue(q)
  local ids, records, runs = {}, {}, {}
  n = math.min(n, allowed(q))
  for priority = 0, 9 do
    local again = is_used(q, priority)
    while again and #ids < n do
      local set, some = waiting(q, priority), {}
      write_back(set)
      local places = redis.call('ZRANGEBYSCORE', set.key, '-inf', now_text(), 'LIMIT', '0', n - #ids)
      again = false
      if #places > 0 then
        for at, place in ipairs(places) do
          some[at] = string.sub(place, PLACE_BYTES + 1)
        end
        redis.call('ZREMRANGEBYRANK', set.key, 0, #places - 1)
        local new_records = redis.call('HMGET', q.records.key, unpack(some))
        local new_runs = redis.call('HMGET', q.runs.key, unpack(some))
        for at, id in ipairs(some) do
          local record, run = new_records[at], new_runs[at]
          ids[#ids + 1] = id
          records[#ids], runs[#ids] = record, run
          local byte = string.byte(record, PRIORITY_AT)
          if q.overflow == DROP_OLDEST then redis.call('ZREM', q.by_age, id) end
          if byte >= DATED then
            redis.call('ZREM', q.by_deadline, id)
            byte = byte - DATED
          end
          if byte >= KEYED then
            take_turn(q, task_of(id, record, run), leased)
            again = true
          end
        end
        q.changed = true
      end
    end
  end
  count_starts(q, nil, q.rate_n, q.rate_us, #ids)
  return ids, records, runs
end
