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

-- Whether a task of `at_once` comes before one of the same priority with this due time and place.
local function is_before(record, due, place)
  local its_due = struct.unpack('>I7', record, FIRST_FROM)
  return its_due < due or its_due == due and struct.unpack('>I7', record) < struct.unpack('>I7', place)
end

-- The first tasks of a priority in claim order, up to `n`, from its set and from `at_once`: their ids, records and runs,
-- how many are from the set, and how many entries of `at_once` they take up and how many of these are skipped.
local function merged(q, priority, listed, n)
  local places = redis.call('ZRANGEBYSCORE', waiting(q, priority).key, '-inf', now_text(), 'WITHSCORES', 'LIMIT', '0', n)
  local ids, records, runs, from_set, from_list, some = {}, {}, {}, 0, 0, {}
  while #ids < n do
    local place, record = places[2 * from_set + 1], listed.records[from_list + 1]
    if not record and (not place or listed.is_more) then break end
    if record and (not place or is_before(record, tonumber(places[2 * from_set + 2]), place)) then
      from_list = from_list + 1
      ids[#ids + 1], records[#ids + 1] = listed.ids[from_list], record
    else
      from_set = from_set + 1
      some[from_set] = string.sub(place, PLACE_BYTES + 1)
      ids[#ids + 1] = some[from_set]
    end
  end
  if from_set > 0 then
    local of_set, at = redis.call('HMGET', q.records.key, unpack(some)), 0
    local runs_of_set = redis.call('HMGET', q.runs.key, unpack(some))
    for i = 1, #ids do
      if not records[i] then
        at = at + 1
        records[i], runs[i] = of_set[at], runs_of_set[at]
      end
    end
  end
  return ids, records, runs, from_set, at_once.upto(listed, from_list)
end

local function has_tasks(q, priority)
  return is_used(q, priority) or priority == USUAL and is_used(q, AT_ONCE)
end

-- What must precede a choice of tasks. True if more is left than one call processes.
local function prepare(q)
  if reap(q) then return true end
  if not at_once.has_litter(q) then return false end
  finish(q)
  return true
end

-- The first due tasks of a priority, as `merged` returns them. Fewer than there are if many entries are to be skipped.
local function due_of(q, priority, n)
  local listed = { ids = {}, records = {} }
  if priority == USUAL and is_used(q, AT_ONCE) then
    listed = at_once.first(q, n)
    at_once.cut(listed)
    q.is_partial = listed.is_more
  end
  if is_used(q, priority) then return merged(q, priority, listed, n) end
  return listed.ids, listed.records, {}, 0, at_once.upto(listed, #listed.ids)
end

-- Lists of tasks: their ids, records and runs.
local tasks = {}

function tasks.none()
  return { ids = {}, records = {}, runs = {} }
end

-- Adds tasks to `found`, and returns how many it had before. The first lists become its own, so they are not copied.
function tasks.join(found, ids, records, runs)
  local n = #found.ids
  if n == 0 then
    found.ids, found.records, found.runs = ids, records, runs
    return 0
  end
  for at = 1, #ids do
    found.ids[n + at], found.records[n + at], found.runs[n + at] = ids[at], records[at], runs[at]
  end
  return n
end

-- The first due tasks in claim order: their ids, records and runs.
local function due_tasks(q, n)
  write_back_queue(q)
  local found = tasks.none()
  for priority = 0, 9 do
    if #found.ids < n and not q.is_partial and has_tasks(q, priority) then
      tasks.join(found, due_of(q, priority, n - #found.ids))
    end
  end
  return found
end

-- A claimer that got as many tasks as it asked for may have no time for the next one. Wakes a process for that, unless
-- the task was due when it was enqueued, because that woke a process.
local function pass_on(q)
  if redis.call('ZCARD', q.listeners) == 0 then return end
  local found = due_tasks(q, 1)
  local record = found.records[1]
  local was_due = record and (is_listed(record)
    or struct.unpack('>I7', record, DUE_FROM) <= struct.unpack('>I7', record, FIRST_FROM))
  if was_due and not found.runs[1] then return end
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

-- Removes chosen tasks from the indexes of waiting tasks, from one on. True if one of them had a key.
function tasks.leave_indexes(q, chosen, from, leased)
  local have_keys = false
  for at = from, #chosen.ids do
    local id, record = chosen.ids[at], chosen.records[at]
    local byte = string.byte(record, PRIORITY_AT)
    if q.overflow == DROP_OLDEST then redis.call('ZREM', q.by_age, id) end
    if byte >= DATED then redis.call('ZREM', q.by_deadline, id) end
    if byte % LISTED >= KEYED then
      take_turn(q, task_of(id, record, chosen.runs[at]), leased)
      have_keys = true
    end
  end
  return have_keys
end

-- Removes the first due tasks from where they wait, in order, and returns them as `due_tasks` does. When a key group
-- has had its turn, its priority is read again, because the group may have another due task.
local function assign(q, n, leased)
  write_back_queue(q)
  local found = tasks.none()
  n = math.min(n, allowed(q))
  for priority = 0, 9 do
    local again = has_tasks(q, priority)
    while again and #found.ids < n and not q.is_partial do
      if is_used(q, priority) then write_back(waiting(q, priority)) end
      local ids, records, runs, from_set, upto, skipped = due_of(q, priority, n - #found.ids)
      again = false
      if #ids > 0 then
        if from_set > 0 then redis.call('ZREMRANGEBYRANK', waiting(q, priority).key, 0, from_set - 1) end
        if upto > 0 then at_once.drop(q, upto, skipped) end
        local before = tasks.join(found, ids, records, runs)
        -- Tasks of `at_once` have no key.
        if from_set > 0 or q.dated or q.overflow == DROP_OLDEST then
          again = tasks.leave_indexes(q, found, before + 1, leased)
        end
        q.changed = true
      end
    end
  end
  count_starts(q, nil, q.rate_n, q.rate_us, #found.ids)
  return found
end
