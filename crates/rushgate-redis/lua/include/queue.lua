-- A queue. Its eighteen keys, in this order:
--   meta       HASH  v latest revision, a latest arrival, c latest claim, w wake-ups, u priorities in use (bits),
--                    p 1 if paused, b bound, n 1 once the queue was used
--   records    HASH  id -> arrival(6) turn(1) revision(6) first(7) due(7) priority(1) max attempts(2) body; the turn is
--                    to be added to the revision
--   runs       HASH  id -> claim(7) turn(1) attempts(2) flags(1) lease until(7) due(7) worker's length(1) worker error;
--                    of tasks that were claimed at least once. The turn is to be added to the claim. Its due time goes
--                    before the record's
--   newcomers  HASH  id -> as records, put in while the task was leased
--   leases     ZSET  claim(7) turn(1) id -> lease until
--   dead       HASH  id -> died(7) attempts(2) max attempts(2) priority(1) error's length(2) error body
--   dead_ids   ZSET  id -> 0
--   listeners  ZSET  inbox -> since, of processes that wait for something to be given out
--   waiting    ZSET  arrival(6) turn(1) id -> due, one for each of the ten priorities
-- Flags of a run: 1 leased, 2 to be cancelled, 4 it failed before and has an error, 8 a newcomer waits behind it.
-- Turns count what one call gives out: so its tasks share what is packed, and each costs little more than its bytes.
-- The body is opaque here: content type and payload.
-- include: draft
local RECORD, HEADER, HEADER_BYTES = '>I6I1I6I7I7I1I2c0', '>I6I1I6I7I7I1I2', 30
local PLACE_BYTES, DUE_FROM, DUE_TO = 7, 21, 27
local RUN, RUN_BYTES, LEASE_BYTES = '>I7I1I2I1I7I7', 25, 8
local TURNS = 256
local LEASED, CANCELLED, FAILED, REPLACED = 1, 2, 4, 8
-- Leases that one call ends at most. A call that finds more answers AGAIN before it does anything else.
local REAPED_MAX = 500
-- Processes that one call wakes at most.
local WOKEN_MAX = 8
local AGAIN = { ok = 'AGAIN' }

local function queue_keys(first)
  local q = {
    meta = KEYS[first], records = hash(KEYS[first + 1]), runs = hash(KEYS[first + 2]),
    newcomers = KEYS[first + 3], leases = sorted_set(KEYS[first + 4]), dead = KEYS[first + 5],
    dead_ids = KEYS[first + 6], listeners = KEYS[first + 7], waiting = {}, first = first + 8, woken = 0,
  }
  local row = redis.call('HMGET', q.meta, 'v', 'a', 'c', 'w', 'u', 'p', 'b')
  q.revision, q.arrival, q.claim = tonumber(row[1]) or 0, tonumber(row[2]) or 0, tonumber(row[3]) or 0
  q.wakes, q.used = tonumber(row[4]) or 0, tonumber(row[5]) or 0
  q.paused, q.bound = row[6] == '1', tonumber(row[7])
  return q
end

-- A first write that a server out of memory refuses, so that nothing is put in half.
local function touch(q)
  redis.call('HSETNX', q.meta, 'n', 1)
end

-- A first write that a server out of memory allows, so that what is in can be worked off.
local function allow_when_full(q)
  redis.call('ZREM', q.leases.key, '')
end

local function is_used(q, priority)
  return bit.band(q.used, bit.lshift(1, priority)) ~= 0
end

-- The tasks of a priority that wait.
local function waiting(q, priority)
  local of = q.waiting[priority]
  if not of then
    of = sorted_set(KEYS[q.first + priority])
    q.waiting[priority], q.used = of, bit.bor(q.used, bit.lshift(1, priority))
  end
  return of
end

-- Whoever looks into the sets themselves writes back first.
local function write_back_queue(q)
  write_back(q.records)
  write_back(q.runs)
  write_back(q.leases)
  for _, of in pairs(q.waiting) do
    write_back(of)
  end
end

-- Whether there are as many tasks as there may be.
local function is_full(q)
  if not q.bound then return false end
  q.size = q.size or redis.call('HLEN', q.records.key)
  return q.size >= q.bound
end

local function has(task, flag)
  return bit.band(task.flags, flag) ~= 0
end

local function body_of(record)
  return string.sub(record, HEADER_BYTES + 1)
end

local function task_of(id, record, run)
  local arrival, turn, revision, first, due, priority, max = struct.unpack(HEADER, record)
  local t = {
    id = id, record = record, arrival = arrival, turn = turn, revision = revision + turn, first = first, due = due,
    priority = priority, max = max, attempts = 0, flags = 0, claim = 0, till = 0, worker = '', error = '',
  }
  if run then
    t.ran = true
    t.claim, t.claim_turn, t.attempts, t.flags, t.till, t.due = struct.unpack(RUN, run)
    t.claim = t.claim + t.claim_turn
    local length = string.byte(run, RUN_BYTES + 1)
    t.worker = string.sub(run, RUN_BYTES + 2, RUN_BYTES + 1 + length)
    t.error = string.sub(run, RUN_BYTES + 2 + length)
  end
  return t
end

local function load(q, id)
  local record = read(q.records, id)
  return record and task_of(id, record, read(q.runs, id))
end

-- Tasks that are about to be loaded.
local function fetch_tasks(q, ids)
  fetch(q.records, ids)
  fetch(q.runs, ids)
end

local function pack_run(t)
  return struct.pack(RUN, t.claim - t.claim_turn, t.claim_turn, t.attempts, t.flags, t.till, t.due)
    .. string.char(#t.worker) .. t.worker .. t.error
end

local function store_run(q, t)
  t.ran = true
  set_field(q.runs, t.id, pack_run(t))
end

local function store_record(q, t, body)
  set_field(q.records, t.id,
    struct.pack(RECORD, t.arrival, t.turn, t.revision - t.turn, t.first, t.due, t.priority, t.max, body))
end

local function place(t)
  return string.sub(t.record, 1, PLACE_BYTES) .. t.id
end

local function lease_of(t)
  return struct.pack('>I7I1c0', t.claim - t.claim_turn, t.claim_turn, t.id)
end

-- A task waits in its place. Somebody may have to be woken for it.
local function wait(q, priority, due, place, wake)
  add_at(q.waiting[priority] or waiting(q, priority), due, place)
  q.changed = true
  if wake and due <= now then
    q.woken = q.woken + 1
  elseif wake then
    q.soonest = math.min(q.soonest or due, due)
  end
end

-- Takes the task from wherever it waits or is leased.
local function lift(q, t)
  if has(t, LEASED) then
    take_out(q.leases, lease_of(t))
  else
    take_out(waiting(q, t.priority), place(t))
  end
end

local function remove(q, t)
  lift(q, t)
  set_field(q.records, t.id, false)
  if t.ran then set_field(q.runs, t.id, false) end
end

-- What the tasks have in common that one call puts in on the same terms.
local function terms(due, priority, mode, max_wait, max)
  return {
    due = due, priority = priority, mode = mode, max_wait = max_wait, max = max,
    head = struct.pack('>I7I7I1I2', now, due, priority, max),
  }
end

-- A new life under an id: every attempt before it, a revision of its own, at the end of the arrivals.
local function begin(q, id, of, body)
  q.arrival, q.revision, q.turn = q.arrival + 1, q.revision + 1, (q.turn or TURNS - 1) + 1
  if q.turn == TURNS then
    q.first_arrival, q.first_revision, q.turn = struct.pack('>I6', q.arrival), struct.pack('>I6', q.revision), 0
  end
  local turn = string.char(q.turn)
  set_field(q.records, id, q.first_arrival .. turn .. q.first_revision .. of.head .. body)
  wait(q, of.priority, of.due, q.first_arrival .. turn .. id, true)
end

-- If a newcomer waits behind the run that ends, it takes the record's place.
local function promote(q, t, wake)
  if not has(t, REPLACED) then return false end
  lift(q, t)
  q.arrival, q.turn = q.arrival + 1, nil
  local record = struct.pack('>I6', q.arrival) .. string.sub(redis.call('HGET', q.newcomers, t.id), 7)
  redis.call('HDEL', q.newcomers, t.id)
  set_field(q.runs, t.id, false)
  set_field(q.records, t.id, record)
  local newcomer = task_of(t.id, record)
  wait(q, newcomer.priority, newcomer.due, place(newcomer), wake)
  return true
end

local function die(q, t, at, error)
  remove(q, t)
  local letter = struct.pack('>I7I2I2I1I2', at, t.attempts, t.max, t.priority, #error) .. error
  redis.call('HSET', q.dead, t.id, letter .. body_of(t.record))
  redis.call('ZADD', q.dead_ids, 0, t.id)
end

-- The run ends and the task waits again, from that moment on.
local function back(q, t, due, wake)
  lift(q, t)
  t.flags = bit.band(t.flags, FAILED)
  t.claim, t.claim_turn, t.till, t.worker, t.due = 0, 0, 0, '', due
  store_run(q, t)
  wait(q, t.priority, due, place(t), wake)
end

-- When something is due that is not due now: the first delay or lease to end.
local function next_due(q)
  write_back_queue(q)
  local first
  local function see(set)
    local head = redis.call('ZRANGE', set.key, 0, 0, 'WITHSCORES')
    if head[2] then first = math.min(first or math.huge, tonumber(head[2])) end
  end
  for priority = 0, 9 do
    if is_used(q, priority) then see(waiting(q, priority)) end
  end
  see(q.leases)
  return first
end

-- Wakes processes that wait, for so many tasks: `Q`, tasks, wake-ups, name. One that is gone is passed over.
local function ring(q, tasks)
  q.wakes = q.wakes + tasks
  q.changed = true
  local name, woken = string.match(q.meta, '^rg:{q:(.*)}:m$'), 0
  while woken < math.min(tasks, WOKEN_MAX) do
    local inbox = redis.call('ZPOPMIN', q.listeners)[1]
    if not inbox then return end
    woken = woken + redis.call('PUBLISH', 'rg:in:' .. inbox, 'Q' .. tasks .. ' ' .. int(q.wakes) .. ' ' .. name)
  end
end

-- Writes the queue's counters back, and wakes whoever waits for what has come in.
local function finish(q)
  write_back_queue(q)
  if q.woken > 0 and not q.paused then
    ring(q, q.woken)
  elseif q.soonest and not q.paused and redis.call('ZCARD', q.listeners) > 0 and next_due(q) == q.soonest then
    ring(q, 1)
  end
  if q.changed then
    redis.call('HSET', q.meta,
      'v', int(q.revision), 'a', int(q.arrival), 'c', int(q.claim), 'w', int(q.wakes), 'u', q.used)
  end
end

-- Ends the leases that have run out, in the order of their ends. True if there are more than one call may end.
local function reap(q)
  local over = redis.call('ZRANGEBYSCORE', q.leases.key, '-inf', now, 'LIMIT', 0, REAPED_MAX)
  for at, lease in ipairs(over) do
    over[at] = string.sub(lease, LEASE_BYTES + 1)
  end
  fetch_tasks(q, over)
  for _, id in ipairs(over) do
    local t = load(q, id)
    if promote(q, t) then
      -- The newcomer waits.
    elseif has(t, CANCELLED) then
      remove(q, t)
    elseif t.attempts >= t.max then
      die(q, t, t.till, 'lease ran out')
    else
      back(q, t, t.till)
    end
  end
  q.changed = q.changed or #over > 0
  if #over < REAPED_MAX then return false end
  finish(q)
  return true
end

-- The first due tasks, in the order in which they are given out: their ids, their records, their runs, and how many
-- they are of each priority.
local function due_tasks(q, n)
  write_back_queue(q)
  local ids, count = {}, {}
  for priority = 0, 9 do
    if #ids < n and is_used(q, priority) then
      local places = redis.call('ZRANGEBYSCORE', waiting(q, priority).key, '-inf', now, 'LIMIT', 0, n - #ids)
      for _, at in ipairs(places) do
        ids[#ids + 1] = string.sub(at, PLACE_BYTES + 1)
      end
      count[priority] = #places
    end
  end
  if #ids == 0 then return {}, {}, {}, {} end
  return ids, redis.call('HMGET', q.records.key, unpack(ids)), redis.call('HMGET', q.runs.key, unpack(ids)), count
end
