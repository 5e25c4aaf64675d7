-- A queue. Its 37 keys, in this order:
--   meta          HASH  counters and settings, such as paused (1 if it is), capacity, limits and latest_event
--   records       HASH  id -> record, of live tasks
--   runs          HASH  id -> run, of live tasks that were claimed at least once
--   newcomers     HASH  id -> record, of the pending replacements of leased tasks
--   leases        ZSET  leased task -> lease until
--   listeners     ZSET  inbox -> since, of processes that wait for a task to claim
--   at_once       LIST  waiting tasks of the default priority that were due when they were enqueued, in that order
--   waiting       ZSET  other waiting task -> due; ten keys, one per priority
--   blocked       ZSET  waiting tasks with a key
--   held          ZSET  id -> due, of tasks that wait for others
--   groups        HASH  key and priority -> the first of the waiting tasks with that key
--   key_leases    HASH  key -> number of its leased tasks
--   starts        HASH  key -> when its latest tasks started, for the rate of the key; '' for that of the queue
--   starts_until  ZSET  key -> when its start times no longer matter
--   dead          HASH  id -> dead letter
--   dead_ids      ZSET  id -> 0, of dead letters
--   done          HASH  id -> finished task that is kept
--   done_ids      ZSET  id -> finished
--   by_age        ZSET  id -> first, of waiting tasks, if the queue drops its oldest
--   by_deadline   ZSET  id -> deadline, of waiting tasks that have one
--   dependents    ZSET  which tasks wait for others, by dependency
--   dependencies  ZSET  the same, by dependent
--   results       HASH  finished dependencies of live tasks
--   result_ids    ZSET  the same, in order
--   unsettled     HASH  tasks that ended, whose dependents are not all updated yet
--   unsettled_ids ZSET  the same, and removed tasks whose links are still to be deleted
--   events        HASH  number -> event
--   watchers      HASH  id -> inboxes(16 each) to notify when the task finishes; '' for those to notify of events
--
-- The members of sorted sets of tasks end with the id.
--
-- Records in answers:
--   record       arrival(6) turn(1) revision(6) first(7) priority(1) max attempts(2) [due(7)] [deadline(7)]
--                [key's length(1) key] body
--                first: when the id was first enqueued
--                priority: 0 to 9, plus 16 with a key, 32 in `at_once`, 64 with a deadline, 128 if the task waits for
--                others. The 32 stays when the task is claimed
--                due: absent with 32, because it is `first`
--   run          claim(7) turn(1) attempts(2) flags(1) lease until(7) due(7) worker's length(1) worker
--                [note's length(1) percent(1) note] [past's length(2) past] error
--                due: overrides that of the record; percent: 255 for none
--                flags: 1 leased, 2 canceled, 4 failed before and has an error, 8 has a pending replacement, 16 keeps
--                its place in the key group, 32 has a key (while leased), 64 has a past, 128 has a note
--   past         for each of up to ten runs without success: attempt(2) began(7) ended(7) how(1) worker's length(1)
--                worker error's length(1) error
--                how: 0 failed, 1 lost, 2 snoozed
--   dead letter  died(7) attempts(2) max attempts(2) priority(1) error's length(2) error [past's length(2) past]
--                [key's length(1) key] body
--                priority: 0 to 9, plus 16 with a key, 32 with a past
--   done         finished(7) how(1) result's length(4) result run's length(4) run record
--                result: a body, or empty
--   event        at(7) what(1) attempt(2) due(7) id's length(1) id worker or error
--                attempt, due: 0 if they do not apply. Of a task that is done or discarded, due is when its run began
--                what: a number of `how`, or 7 added, 8 replaced, 9 claimed, 10 requeued, 11 failed, 12 lost, 13 released
--                by its worker, 14 cancellation requested, 15 dead letter requeued, 16 dead letter deleted
--   how          how a task finished: 0 done, 1 discarded, 2 canceled, 3 dropped, 4 popped, 5 deleted, 6 dead
--   limits       separated by spaces, with `-` for none: concurrency; count and µs of the rate; the same three per key; 1
--                if first in, first out per key; µs and count of the retention; overflow policy, as in
--                rushgate_1_queue_limit; number of events kept
-- Add the turn to the revision of a record, or to the claim of a run: up to 256 tasks of one call share the number.
--
-- internals:
--   meta          counters: revision(7) arrivals(7) claims(7) wake-ups(7) sets(2) groups(4) skipped(4) listed(7): the
--                   latest revision, arrival and claim; wake-ups so far; bit mask of the sets in use: `waiting` by
--                   priority, and 1024 for `at_once`; number of key groups in `waiting`; number of entries in `at_once` to
--                   skip, and the latest due time of its entries. Present once the queue was used
--                 first_event: the first that may be kept
--                 dropped: number of tasks dropped in total
--                 age_cursor: of the scan that indexes waiting tasks by age; absent when all are indexed
--                 has_deadlines: 1 if waiting tasks have deadlines
--                 unique_until: latest end of a uniqueness window
--                 has_dependencies: 1 if live tasks wait for others or have waited
--                 relayed: and the name of an outbox: the highest number relayed from it
--   leases        claim(7) turn(1) id
--   at_once       place(7) id. An entry is skipped if the task is gone, was claimed, or is not marked in its record
--   waiting       place(7) id
--   blocked       key NUL priority(1) due(7) place(7) id -> 0
--   groups        key NUL priority(1) -> last turn(7) place(7) moment + 1(7) due(7) place(7) id. The last three are its
--                 first task's. Moment + 1 is 0 while the group is blocked
--   starts        7 bytes for each time
--   dependents    other NUL if dead(1) place(7) id -> 0: the task at a place waits for another
--   dependencies  place(7) if dead(1) other -> 0; without `other`, an open batch
--   results       place(7) other -> finished(7) how(1) result or error
--   result_ids    place(7) other -> 0
--   unsettled     finished(7) NUL id -> how(1) result or error
--   unsettled_ids the same -> 0, or finished(7) SOH place(7) id -> 0: a removed task
-- A place is arrival(6) turn(1). If dead: 0 keep waiting, 1 fail, 2 run. The functions do not read bodies. A run with the
-- flag 16 keeps its place in the key group by the record's due time.
--
-- A key group is the waiting tasks of one key and priority. Only its first task is in `waiting`, at the place of the
-- group, and only while the key has room.
-- include: draft
local RECORD, HEADER = '>I6I1I6I7I1I2I7c0', '>I6I1I6I7I1I2'
local HEADER_BYTES, MOMENT_BYTES = 23, 7
local PLACE_BYTES, FIRST_FROM, DUE_FROM = 7, 14, 24
local RUN = '>I7I1I2I1I7I7'
local RUN_BYTES, LEASE_BYTES = 25, 8
local TURNS = 256
local COUNTERS_BYTES = 45
local COUNTERS = '>I7I7I7I7I2I4I4I7'
local LEASED, CANCEL_ASKED, FAILED, REPLACED, IN_PLACE, OF_KEY, HAS_PAST, HAS_NOTE = 1, 2, 4, 8, 16, 32, 64, 128
local KEYED, LISTED, DATED, LINKED, PRIORITY_AT, PAST_BEFORE = 16, 32, 64, 128, 21, 32
-- The priority of most tasks.
local USUAL = 5
-- How a task ended, and how a run ended.
-- codes: TaskEnd as END_
-- codes: PastEnd as RUN_
-- Overflow policies.
-- codes: Overflow
-- The kinds of members of unsettled_ids, and where a member has its kind.
local TASK_ENDED, TASK_GONE, KIND_AT = '\0', '\1', 8
-- The most dependents that one call updates.
local TOLD_MAX = 500
-- Error of a task whose deadline passed.
local LATE = 'its deadline passed before it ran'
-- The most finished tasks that one call deletes.
local FORGOTTEN_MAX = 2000
-- The most leases that one call ends. A call that finds more answers AGAIN before it does anything else.
local REAPED_MAX = 500
-- The most processes that one call wakes.
local WOKEN_MAX = 8
local AGAIN = { ok = 'AGAIN' }

-- Parses the limits. A rate is a count and a period.
local function read_limits(q, text)
  local n, per, key_n, key_per, fifo, age, count, overflow, events_n
  q.concurrency, n, per, q.key_concurrency, key_n, key_per, fifo, age, count, overflow, events_n =
    string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d) ?(%S*) ?(%S*) ?(%S*) ?(%S*)$')
  q.events_n = tonumber(events_n)
  q.keep_us, q.keep_n, q.overflow = tonumber(age), tonumber(count), tonumber(overflow)
  q.concurrency, q.rate_n, q.rate_us = tonumber(q.concurrency), tonumber(n), tonumber(per)
  q.key_concurrency, q.key_rate_n, q.key_rate_us = tonumber(q.key_concurrency), tonumber(key_n), tonumber(key_per)
  q.fifo = fifo == '1'
  if q.fifo then q.key_concurrency = 1 end
end

-- The keys that few calls use, as a metatable of `q`. Kept with the names of the keys, which are valid for many calls.
local function rare_keys(first)
  local kept = KEYS.rare or {}
  KEYS.rare = kept
  kept[first] = kept[first] or {
    __index = {
      newcomers = KEYS[first + 3], blocked = KEYS[first + 17], held = KEYS[first + 18], starts_until = KEYS[first + 22],
      dead = KEYS[first + 23], dead_ids = KEYS[first + 24], done = KEYS[first + 25], done_ids = KEYS[first + 26],
      by_age = KEYS[first + 27], by_deadline = KEYS[first + 28], dependents = KEYS[first + 29],
      dependencies = KEYS[first + 30], results = KEYS[first + 31], result_ids = KEYS[first + 32],
      unsettled = KEYS[first + 33], unsettled_ids = KEYS[first + 34], events = KEYS[first + 35],
    },
  }
  return kept[first]
end

local function queue_keys(first)
  local meta = KEYS[first]
  local row = redis.call('HMGET', meta, 'counters', 'paused', 'capacity', 'limits', 'has_deadlines', 'unique_until',
    'has_dependencies')
  local revision, arrival, claim, wakes, used, lines_waiting, skipped, listed_until =
    struct.unpack(COUNTERS, row[1] or string.rep('\0', COUNTERS_BYTES))
  -- All fields are set at once, because a Lua table is allocated again when it grows.
  local q = setmetatable({
    meta = meta, records = hash(KEYS[first + 1]), runs = hash(KEYS[first + 2]), leases = sorted_set(KEYS[first + 4]),
    listeners = KEYS[first + 5], at_once = KEYS[first + 6], waiting = {}, first = first, hashes = {}, moment = now, fresh = {}, started = {},
    terms = {}, woken = 0, changed = false, revision = revision, arrival = arrival, claim = claim, wakes = wakes,
    used = used, lines_waiting = lines_waiting, skipped = skipped,
    listed_until = listed_until, is_known = row[1], paused = row[2] == '1', bound = tonumber(row[3]),
    dated = row[5], unique_till = tonumber(row[6]) or 0, linked = row[7], turn = false, soonest = false,
  }, rare_keys(first))
  if row[4] then read_limits(q, row[4]) end
  return q
end

-- Hashes that most calls do not need, and their places among the keys.
local PLACES = { groups = 19, key_leases = 20, starts = 21, watchers = 36 }
local function hash_of(q, name)
  local of = q.hashes[name]
  if not of then
    of = hash(KEYS[q.first + PLACES[name]])
    q.hashes[name] = of
  end
  return of
end

-- Events other than a task's end, how they are kept, and how processes are notified.
local events = {
  added = 7, replaced = 8, claimed = 9, requeued = 10, failed = 11, lost = 12, released = 13, cancel_asked = 14,
  dead_requeued = 15, dead_deleted = 16,
  -- Buffers an event until the call ends, if the queue keeps events.
  note = function(q, at, id, what, attempt, due, text)
    if not q.events_n then return end
    local noted = q.noted or {}
    local n = #noted
    if n > 0 and noted[n].at > at then q.mixed = true end
    local packed = struct.pack('>I7I1I2I7I1', at, what, attempt or 0, due or 0, #id) .. id .. (text or '')
    noted[n + 1], q.noted = { at = at, place = n, packed = packed }, noted
  end,
  -- The number of the first event kept, or of the next one if none is; and the number of the latest.
  range = function(q)
    local row = redis.call('HMGET', q.meta, 'latest_event', 'first_event')
    local latest = tonumber(row[1]) or 0
    return math.max(tonumber(row[2]) or 1, latest - (q.events_n or 0) + 1), latest
  end,
  -- Numbers the buffered events in order of their moments, and deletes the oldest beyond the limit.
  write = function(q)
    local noted, most = q.noted, q.events_n
    if not noted then return end
    q.noted = nil
    if q.mixed then
      table.sort(noted, function(a, b)
        if a.at ~= b.at then return a.at < b.at end
        return a.place < b.place
      end)
      q.mixed = nil
    end
    local n = #noted
    local latest = redis.call('HINCRBY', q.meta, 'latest_event', n)
    local of, before = hash(q.events), latest - n
    for at = math.max(n - most, 0) + 1, n do
      add(of, int(before + at), noted[at].packed)
    end
    for old = math.max(before - most, 0) + 1, math.min(latest - most, before) do
      take_out(of, int(old))
    end
    write_back(of)
    q.latest_event = latest
  end,
  -- Stores the inbox of a process that watches a task, or the events, for one notification. The latest 64 are kept;
  -- other processes find out by polling.
  leave_inbox = function(q, watched, inbox)
    local watchers, kept_bytes = hash_of(q, 'watchers'), 16 * 63
    local inboxes = read(watchers, watched) or ''
    if not string.find(inboxes, inbox, 1, true) then
      set_field(watchers, watched, string.sub(inboxes, -kept_bytes) .. inbox)
    end
  end,
  -- Notifies every process that watches, once.
  tell = function(q, watched, what)
    local watchers = hash_of(q, 'watchers')
    local inboxes = read(watchers, watched)
    if not inboxes then return end
    local message = what .. ' ' .. string.match(q.meta, '^rg:{q:(.*)}:meta$')
    for at = 1, #inboxes, 16 do
      redis.call('PUBLISH', 'rg:in:' .. string.sub(inboxes, at, at + 15), message)
    end
    set_field(watchers, watched, false)
  end,
}

-- The call adds something, so the queue exists from now on.
local function touch(q)
  if not q.is_known then q.changed = true end
end

local function is_used(q, priority)
  return bit.band(q.used, bit.lshift(1, priority)) ~= 0
end

-- Place of the first waiting set among the keys.
local FIRST_WAITING = 7
-- The waiting set of a priority.
local function waiting(q, priority)
  local of = q.waiting[priority]
  if not of then
    of = sorted_set(KEYS[q.first + FIRST_WAITING + priority])
    q.waiting[priority], q.used = of, bit.bor(q.used, bit.lshift(1, priority))
  end
  return of
end

-- Tasks that were due when they were enqueued: a list takes much less memory than a sorted set, and less time. It has
-- an entry until a claim reaches it, so that the entry of a task that was canceled or changed is skipped. With many of
-- these, new tasks go to the sorted set, so that they do not accumulate. So they do while the clock is behind the latest
-- entry, because the list is in order of due times.
local at_once = {}
-- Its bit in `sets`.
local AT_ONCE = 10
-- The most entries to skip before new tasks go to the sorted set, if they are also more than half of all entries.
local SKIPPED_MAX = 1000
-- The most entries that one call skips, and how many it reads at a time if there are some to skip.
local ENTRIES_MAX, ENTRIES_PAGE = 2000, 20

-- Writes the buffered entries.
function at_once.write(q)
  if not q.listed then return end
  in_chunks('RPUSH', q.at_once, q.listed)
  q.listed = nil
end

function at_once.length(q)
  at_once.write(q)
  return redis.call('LLEN', q.at_once)
end

-- Whether a new task that is due now may be appended.
function at_once.may_add(q)
  return now >= q.listed_until and (q.skipped < SKIPPED_MAX or q.skipped * 2 < at_once.length(q))
end

-- Whether a task that is not leased waits here.
function at_once.has(t)
  return t.listed and not t.ran
end

-- Whether a record has no due time: of a task that entered `at_once`.
local function is_listed(record)
  return string.byte(record, PRIORITY_AT) % DATED >= LISTED
end

-- Whether an entry is of a task that waits here, by its record and run.
function at_once.is_live(entry, record, run)
  return record and not run and string.sub(record, 1, PLACE_BYTES) == string.sub(entry, 1, PLACE_BYTES)
    and is_listed(record)
end

-- Deletes the first entries, of which some were to be skipped.
function at_once.drop(q, n, skipped)
  redis.call('LTRIM', q.at_once, n, '-1')
  q.skipped, q.changed = math.max(q.skipped - skipped, 0), true
end

function at_once.are_all_there(values, n)
  for at = 1, n do
    if not values[at] then return false end
  end
  return true
end

-- Reads entries from one on, and adds the tasks that wait here to `found`, which has at most `n`. Returns how many entries
-- it read.
local function read_entries(q, from, n, found)
  local count, most = #found.ids, n - #found.ids
  if q.skipped > 0 then most = math.max(most, ENTRIES_PAGE) end
  local entries, some, sub = redis.call('LRANGE', q.at_once, from, from + most - 1), {}, string.sub
  if not entries[1] then return 0 end
  for at = 1, #entries do
    some[at] = sub(entries[at], PLACE_BYTES + 1)
  end
  local records = redis.call('HMGET', q.records.key, unpack(some))
  -- Without an entry to skip, all these tasks wait here.
  if q.skipped == 0 and count == 0 and at_once.are_all_there(records, #entries) then
    found.ids, found.records, found.ends = some, records, nil
    return #entries
  end
  local runs = redis.call('HMGET', q.runs.key, unpack(some))
  for at = 1, #entries do
    local record = records[at]
    if count < n and at_once.is_live(entries[at], record, runs[at]) then
      count = count + 1
      found.ids[count], found.records[count], found.ends[count] = some[at], record, from + at
    end
  end
  return #entries
end

-- The first tasks that wait here, up to `n`: their ids and records, and the number of entries up to each, or no numbers
-- if there is nothing to skip. Deletes what is to be skipped before the first task. `is_more` is true if the call has read
-- as many as it may.
function at_once.first(q, n)
  write_back(q.records)
  write_back(q.runs)
  at_once.write(q)
  local found, from, budget = { ids = {}, records = {}, ends = {} }, 0, ENTRIES_MAX + n
  while #found.ids < n do
    if budget <= 0 then
      found.is_more = true
      break
    end
    local read = read_entries(q, from, n, found)
    if read == 0 then break end
    from, budget = from + read, budget - read
    if not found.ids[1] then
      at_once.drop(q, from, from)
      from = 0
    end
  end
  return found
end

-- Whether more entries before the first task are to be skipped than one call may. Skips as many as it may.
function at_once.has_litter(q)
  return q.skipped >= ENTRIES_MAX and at_once.first(q, 1).is_more
end

-- Leaves out the tasks that are not due, because the clock was set back.
function at_once.cut(found)
  local n = #found.ids
  while n > 0 and struct.unpack('>I7', found.records[n], FIRST_FROM) > now do
    found.ids[n], found.records[n], n = nil, nil, n - 1
  end
end

-- The number of entries up to one of these tasks, and how many of them are to be skipped.
function at_once.upto(found, n)
  local entries = found.ends and n > 0 and found.ends[n] or n
  return entries, entries - n
end

-- When the first task here was due, if there is one.
function at_once.head(q)
  if not is_used(q, AT_ONCE) then return nil end
  local found = at_once.first(q, 1)
  if found.records[1] then return (struct.unpack('>I7', found.records[1], FIRST_FROM)) end
  return found.is_more and now or nil
end

function at_once.add(q, place)
  local listed = q.listed
  if listed then listed[#listed + 1] = place else q.listed = { place } end
  q.used, q.listed_until = bit.bor(q.used, bit.lshift(1, AT_ONCE)), now
  q.woken, q.changed = q.woken + 1, true
end

-- Takes out a task that was not claimed: its entry if it is the first or the last, otherwise it is to be skipped.
function at_once.take_out(q, place)
  at_once.write(q)
  if q.skipped > 0 then at_once.first(q, 1) end
  q.changed = true
  if redis.call('LINDEX', q.at_once, '0') == place then
    redis.call('LPOP', q.at_once)
  elseif redis.call('LINDEX', q.at_once, '-1') == place then
    redis.call('RPOP', q.at_once)
  else
    q.skipped = q.skipped + 1
  end
  if q.skipped > 0 and q.skipped >= redis.call('LLEN', q.at_once) then
    redis.call('DEL', q.at_once)
    q.skipped = 0
  end
end

-- Flushes all buffers, before a set is read directly.
local function write_back_queue(q)
  write_back(q.records)
  write_back(q.runs)
  write_back(q.leases)
  for key, starts in pairs(q.started) do
    set_field(hash_of(q, 'starts'), key, starts)
  end
  q.started = {}
  for _, of in pairs(q.hashes) do
    write_back(of)
  end
  for _, of in pairs(q.waiting) do
    write_back(of)
  end
  at_once.write(q)
end

local function is_full(q)
  if not q.bound then return false end
  if not q.size then
    write_back(q.records)
    q.size = redis.call('HLEN', q.records.key)
  end
  return q.size >= q.bound
end

local function has(task, flag)
  return bit.band(task.flags, flag) ~= 0
end

local function body_of(record)
  return string.sub(record, HEADER_BYTES + (is_listed(record) and 1 or MOMENT_BYTES + 1))
end

-- The priority and the key, from a priority byte and the text that has the key's length at `at`.
local function line_of(byte, text, at)
  if byte < KEYED then return byte end
  return byte - KEYED, string.sub(text, at + 1, at + string.byte(text, at))
end

local function task_of(id, record, run)
  local arrival, turn, revision, first, byte, max, at = struct.unpack(HEADER, record)
  local due, deadline, held, listed = first, nil, byte >= LINKED, is_listed(record)
  if held then byte = byte - LINKED end
  if listed then byte = byte - LISTED else due, at = struct.unpack('>I7', record, at) end
  if byte >= DATED then
    deadline, at = struct.unpack('>I7', record, at)
    byte = byte - DATED
  end
  local priority, key = line_of(byte, record, at)
  local t = {
    id = id, record = record, arrival = arrival, turn = turn, revision = revision + turn, first = first, due = due,
    asked = due, priority = priority, key = key, deadline = deadline, max = max, attempts = 0, flags = 0, claim = 0, till = 0,
    worker = '', error = '', held = held, listed = listed,
  }
  if run then
    t.ran = true
    t.claim, t.claim_turn, t.attempts, t.flags, t.till, t.due = struct.unpack(RUN, run)
    t.claim = t.claim + t.claim_turn
    local length, at = string.byte(run, RUN_BYTES + 1), RUN_BYTES + 2
    t.worker, at = string.sub(run, at, at + length - 1), at + length
    if t.flags >= HAS_PAST then
      if t.flags >= HAS_NOTE then
        length = string.byte(run, at)
        t.note, at = string.sub(run, at + 1, at + 1 + length), at + 2 + length
      end
      if has(t, HAS_PAST) then
        t.past, at = struct.unpack('>I2c0', run, at)
      end
    end
    t.error = string.sub(run, at)
  end
  return t
end

local function load(q, id)
  local record = read(q.records, id)
  return record and task_of(id, record, read(q.runs, id))
end

-- Prefetches tasks that will be loaded.
local function fetch_tasks(q, ids)
  fetch(q.records, ids)
  fetch(q.runs, ids)
end

local function pack_run(t)
  local head = struct.pack(RUN, t.claim - t.claim_turn, t.claim_turn, t.attempts, t.flags, t.till, t.due)
  local note = t.note and string.char(#t.note - 1) .. t.note or ''
  local past = t.past and struct.pack('>I2', #t.past) .. t.past or ''
  return head .. string.char(#t.worker) .. t.worker .. note .. past .. t.error
end

-- The first 200 bytes of an error, cut at a character boundary.
local function cut_error(error)
  local length = math.min(#error, 200)
  local next = string.byte(error, length + 1)
  while next and next >= 128 and next < 192 do
    length, next = length - 1, string.byte(error, length)
  end
  return string.sub(error, 1, length)
end

-- Appends a run without success to the past, which keeps the latest ten, each with a cut error.
local function remember_run(t, ended, how, error)
  local most, head_bytes = 10, 17
  local past, ends, from = t.past or '', {}, 1
  error = cut_error(error)
  while from <= #past do
    from = from + head_bytes
    from = from + 1 + string.byte(past, from)
    from = from + 1 + string.byte(past, from)
    ends[#ends + 1] = from
  end
  if #ends == most then past = string.sub(past, ends[1]) end
  t.past = past .. struct.pack('>I2I7I7I1', t.attempts, t.claim, ended, how)
    .. string.char(#t.worker) .. t.worker .. string.char(#error) .. error
  t.flags = bit.bor(t.flags, HAS_PAST)
end

local function store_run(q, t)
  t.ran = true
  set_field(q.runs, t.id, pack_run(t))
end

local function priority_byte(of)
  return of.priority + (of.key and KEYED or 0) + (of.deadline and DATED or 0) + (of.held and LINKED or 0)
end

local function store_record(q, t, body)
  set_field(q.records, t.id,
    struct.pack(RECORD, t.arrival, t.turn, t.revision - t.turn, t.first, priority_byte(t), t.max, t.due, body))
end

local function place(t)
  return string.sub(t.record, 1, PLACE_BYTES) .. t.id
end

local function lease_of(t)
  return struct.pack('>I7I1c0', t.claim - t.claim_turn, t.claim_turn, t.id)
end

-- Adds an entry to a waiting set. With `wake`, processes are woken for it, now or for its due time.
local function wait(q, priority, due, place, wake)
  add_at(q.waiting[priority] or waiting(q, priority), due, place)
  q.changed = true
  if wake and due <= now then
    q.woken = q.woken + 1
  elseif wake then
    q.soonest = math.min(q.soonest or due, due)
  end
end

-- When the rate of a key, or of the queue without a key, allows one more start. As many start times are kept as the
-- rate allows.
local function free_from(q, key)
  local n, per = q.rate_n, q.rate_us
  if key then n, per = q.key_rate_n, q.key_rate_us end
  local starts = n and (q.started[key or ''] or read(hash_of(q, 'starts'), key or ''))
  if not starts or #starts < 7 * n then return 0 end
  return struct.unpack('>I7', starts, #starts - 7 * n + 1) + per
end

local function leased_of(q, key)
  return tonumber(read(hash_of(q, 'key_leases'), key) or 0)
end

local function count_leased(q, key, change)
  local n = leased_of(q, key) + change
  set_field(hash_of(q, 'key_leases'), key, n > 0 and n)
end

-- A task's member of `blocked`, without the name of its key group.
local function stand_of(t)
  return struct.pack('>I7', has(t, IN_PLACE) and t.asked or t.due) .. string.sub(t.record, 1, PLACE_BYTES) .. t.id
end

local LINE = '>I7c7I7'
local STAND_FROM, ID_FROM = 22, 15

-- The name of a key group: its field in `groups`, and the prefix of its members in `blocked`.
local function line_name(key, priority)
  return key .. '\0' .. string.char(priority)
end

local function read_line(q, name)
  local packed = read(hash_of(q, 'groups'), name)
  if not packed then return { turn = 0, moment = 0, first = '' } end
  local line = { packed = packed, first = string.sub(packed, STAND_FROM) }
  line.turn, line.place, line.moment = struct.unpack(LINE, packed)
  return line
end

local function store_line(q, name, line)
  local packed = struct.pack(LINE, line.turn, line.place, line.moment) .. line.first
  if packed ~= line.packed then set_field(hash_of(q, 'groups'), name, packed) end
  line.packed = packed
end

-- Removes a key group from its waiting set.
local function unseat(q, priority, line)
  if line.moment == 0 then return end
  take_out(waiting(q, priority), line.place .. string.sub(line.first, ID_FROM))
  line.moment, q.lines_waiting, q.changed = 0, q.lines_waiting - 1, true
end

-- When the first task of a key group may be claimed; nil while the key has no room. A moment that has passed is kept.
local function moment_of(q, key, line, first)
  if q.key_concurrency and leased_of(q, key) >= q.key_concurrency then return nil end
  local run, free = read(q.runs, string.sub(first, ID_FROM)), free_from(q, key)
  local due = run and struct.unpack('>I7', run, RUN_BYTES - 6) or struct.unpack('>I7', first)
  if free > q.moment then return math.max(due, line.turn, free) end
  if line.first == first and line.moment > 0 and line.moment - 1 <= q.moment then return line.moment - 1 end
  return math.max(due, line.turn)
end

-- Enters a key group into its waiting set, by its first task, if the key has room.
local function seat(q, key, priority, wake)
  local name, behind = line_name(key, priority), line_name(key, priority + 1)
  local line = read_line(q, name)
  local first = redis.call('ZRANGEBYLEX', q.blocked, '[' .. name, '(' .. behind, 'LIMIT', '0', '1')[1]
  if not first then
    unseat(q, priority, line)
    if line.packed then set_field(hash_of(q, 'groups'), name, false) end
    return
  end
  first = string.sub(first, #name + 1)
  local moment = moment_of(q, key, line, first)
  if line.first ~= first or line.moment ~= (moment or -1) + 1 then unseat(q, priority, line) end
  line.first = first
  if not line.place then
    q.arrival, q.turn = q.arrival + 1, nil
    line.place = struct.pack('>I6', q.arrival) .. '\0'
  end
  if moment and line.moment == 0 then
    wait(q, priority, moment, line.place .. string.sub(first, ID_FROM), wake)
    q.fresh[name] = wake and moment <= now
    line.moment, q.lines_waiting = moment + 1, q.lines_waiting + 1
  end
  store_line(q, name, line)
end

-- Completes a change to a task: enters its key group again, and the other groups of the key if they share a limit.
local function seat_touched(q, wake)
  local touched = q.touched
  if not touched then return end
  q.touched = nil
  for key, priorities in pairs(touched) do
    if q.key_concurrency or q.key_rate_n then
      local names = {}
      for priority = 0, 9 do
        names[priority + 1] = line_name(key, priority)
      end
      fetch(hash_of(q, 'groups'), names)
      for priority = 0, 9 do
        if read(hash_of(q, 'groups'), names[priority + 1]) then priorities[priority] = true end
      end
    end
    for priority = 0, 9 do
      if priorities[priority] then seat(q, key, priority, wake) end
    end
  end
end

local function touch_line(q, t)
  q.touched = q.touched or {}
  q.touched[t.key] = q.touched[t.key] or {}
  q.touched[t.key][t.priority] = true
end

-- Indexes a waiting task by age, if the queue may drop it, and by its deadline, if it has one.
local function index(q, id, record, deadline)
  if q.overflow == DROP_OLDEST then redis.call('ZADD', q.by_age, int(struct.unpack('>I7', record, FIRST_FROM)), id) end
  if not deadline then return end
  redis.call('ZADD', q.by_deadline, int(deadline), id)
  if not q.dated then redis.call('HSET', q.meta, 'has_deadlines', 1) end
  q.dated = true
end

-- Makes a task wait: for others, in its key group, or by its own due time. Completes a change that `clear_unique` began.
local function stand(q, t, wake)
  index(q, t.id, t.record, t.deadline)
  if t.held then
    redis.call('ZADD', q.held, int(t.due), t.id)
    q.changed = true
  elseif t.key then
    redis.call('ZADD', q.blocked, 0, line_name(t.key, t.priority) .. stand_of(t))
    touch_line(q, t)
    q.changed = true
  else
    wait(q, t.priority, t.due, place(t), wake)
  end
  seat_touched(q, wake)
end

-- Moves a key group back to the due time and place of a task that returns to it, unless the group already comes before
-- them.
local function return_turn(q, t)
  local name, place = line_name(t.key, t.priority), string.sub(t.record, 1, PLACE_BYTES)
  local line = read_line(q, name)
  local is_first = line.place and (line.turn < t.due
    or line.turn == t.due and struct.unpack('>I7', line.place) < struct.unpack('>I7', place))
  if is_first then return end
  unseat(q, t.priority, line)
  line.turn, line.place = t.due, place
  store_line(q, name, line)
end

-- Takes a task out of the set in which it waits or is leased. `stand` or `remove` completes the change.
local function detach(q, t)
  if has(t, LEASED) then
    take_out(q.leases, lease_of(t))
    if q.concurrency then q.woken = q.woken + 1 end
    if t.key then
      count_leased(q, t.key, -1)
      touch_line(q, t)
    end
  elseif t.held then
    redis.call('ZREM', q.held, t.id)
  elseif t.key then
    local name, of = line_name(t.key, t.priority), stand_of(t)
    redis.call('ZREM', q.blocked, name .. of)
    local line = read_line(q, name)
    if line.first == of then
      unseat(q, t.priority, line)
      store_line(q, name, line)
    end
    touch_line(q, t)
  elseif at_once.has(t) then
    at_once.take_out(q, place(t))
    t.listed = nil
  else
    take_out(waiting(q, t.priority), place(t))
  end
  if has(t, LEASED) then return end
  if q.overflow == DROP_OLDEST then redis.call('ZREM', q.by_age, t.id) end
  if t.deadline then redis.call('ZREM', q.by_deadline, t.id) end
end

-- The first members of a set that have this prefix.
local function beginning(set, with, most)
  return redis.call('ZRANGEBYLEX', set, '[' .. with, '(' .. with .. '\255', 'LIMIT', '0', most)
end

-- A record is gone: its links are to be deleted.
local function forget_waits(q, id, record)
  if not q.linked then return end
  local place = string.sub(record, 1, PLACE_BYTES)
  if beginning(q.dependencies, place, 1)[1] or beginning(q.result_ids, place, 1)[1] then
    redis.call('ZADD', q.unsettled_ids, 0, struct.pack('>I7', now) .. TASK_GONE .. place .. id)
    q.ended = true
  end
end

-- A task has ended, with a result or an error: its dependents are to be updated.
local function has_ended(q, id, at, how, what)
  if not q.linked or not beginning(q.dependents, id .. '\0', 1)[1] then return end
  local field = struct.pack('>I7', at) .. TASK_ENDED .. id
  redis.call('ZADD', q.unsettled_ids, 0, field)
  redis.call('HSET', q.unsettled, field, string.char(how) .. what)
  q.ended = true
end

local function remove(q, t, wake)
  detach(q, t)
  set_field(q.records, t.id, false)
  q.size = q.size and q.size - 1
  if t.ran then set_field(q.runs, t.id, false) end
  seat_touched(q, wake)
  if q.keep_n then events.tell(q, t.id, 'T' .. t.id) end
  forget_waits(q, t.id, t.record)
end

-- A task has finished. It is kept if the queue has a retention.
local function finish_task(q, t, at, how, result, wake)
  remove(q, t, wake)
  events.note(q, at, t.id, how, t.attempts, t.claim)
  has_ended(q, t.id, at, how, result)
  if not q.keep_n then return end
  local run = t.ran and pack_run(t) or ''
  local kept = struct.pack('>I7I1I4', at, how, #result) .. result .. struct.pack('>I4', #run) .. run .. t.record
  redis.call('HSET', q.done, t.id, kept)
  redis.call('ZADD', q.done_ids, int(at), t.id)
  q.finished = true
end

-- Finished tasks that are kept.
local finished = {
  -- Counts them, up to a moment.
  count = function(q, till)
    return redis.call('ZCOUNT', q.done_ids, '-inf', till and int(till) or '+inf')
  end,
  -- The entry of a task, if the retention still covers it.
  entry = function(q, id)
    local kept = q.keep_n and redis.call('HGET', q.done, id)
    return kept and struct.unpack('>I7', kept) > now - q.keep_us and kept
  end,
}

-- Deletes those that exceed the retention. True if more are left than one call deletes.
function finished.forget(q, most)
  local n = finished.count(q)
  if q.keep_n then n = math.max(n - q.keep_n, finished.count(q, now - q.keep_us)) end
  if n == 0 then return false end
  local first = redis.call('ZRANGE', q.done_ids, 0, math.min(n, most) - 1)
  in_chunks('HDEL', q.done, first)
  redis.call('ZREMRANGEBYRANK', q.done_ids, 0, #first - 1)
  return n > most
end

-- What all tasks of a call with the same terms have in common.
local function terms(due, priority, mode, max_wait, max, key, deadline)
  local of = {
    due = due, priority = priority, mode = mode, max_wait = max_wait, max = max, key = key, deadline = deadline,
  }
  of.head = struct.pack('>I7I1I2I7', now, priority_byte(of), max, due)
  of.is_usual = due == now and priority == USUAL and not key
  of.listed_head = of.is_usual and struct.pack('>I7I1I2', now, priority_byte(of) + LISTED, max)
  return of
end

-- The place of a new task, whose revision begins with `q.first_revision`.
local function new_place(q)
  local turn = (q.turn or TURNS - 1) + 1
  q.arrival, q.revision = q.arrival + 1, q.revision + 1
  if turn == TURNS then
    q.first_arrival, q.first_revision, turn = struct.pack('>I6', q.arrival), struct.pack('>I6', q.revision), 0
  end
  q.turn = turn
  return q.first_arrival .. string.char(turn)
end

-- Whether a new task of these terms needs only a record and an entry in `at_once`.
function at_once.suffices(q, of)
  if q.is_plain == nil then
    q.is_plain = not (q.bound or q.events_n or q.overflow == DROP_OLDEST) and q.unique_till <= now and at_once.may_add(q)
  end
  return q.is_plain and of.is_plain
end

-- Does what `begin` does, for such a task.
function at_once.begin(q, id, of, body)
  local place = new_place(q)
  set_field(q.records, id, place .. q.first_revision .. of.listed_head .. body)
  at_once.add(q, place .. id)
end

-- Starts a new task under an id: without attempts, with a new revision, as the latest arrival.
local function begin(q, id, of, body)
  local place = new_place(q)
  -- A task with dependencies is linked to them, and held until they end.
  local held = of.hold and of.hold(q, id, place)
  local listed = of.is_usual and not held and at_once.may_add(q)
  local head = listed and of.listed_head
    or held and struct.pack('>I7I1I2I7', now, priority_byte(of) + LINKED, of.max, of.due) or of.head
  local record = place .. q.first_revision .. head .. body
  set_field(q.records, id, record)
  q.size = q.size and q.size + 1
  if q.events_n then events.note(q, now, id, of.as or events.added, 0, of.due) end
  if of.key or held then
    stand(q, task_of(id, record), true)
  else
    index(q, id, record, of.deadline)
    if listed then at_once.add(q, place .. id) else wait(q, of.priority, of.due, place .. id, true) end
  end
end

-- If a pending replacement waits for the run to end, it becomes the record.
local function promote(q, t, wake)
  if not has(t, REPLACED) then return false end
  events.note(q, q.moment, t.id, events.requeued, t.attempts)
  detach(q, t)
  forget_waits(q, t.id, t.record)
  q.arrival, q.turn = q.arrival + 1, nil
  local record = struct.pack('>I6', q.arrival) .. string.sub(redis.call('HGET', q.newcomers, t.id), 7)
  redis.call('HDEL', q.newcomers, t.id)
  set_field(q.runs, t.id, false)
  set_field(q.records, t.id, record)
  stand(q, task_of(t.id, record), wake)
  return true
end

local function die(q, t, at, error, wake)
  local short = cut_error(error)
  remove(q, t, wake)
  events.note(q, at, t.id, END_DEAD, t.attempts, 0, short)
  has_ended(q, t.id, at, END_DEAD, short)
  t.held = nil
  local body, past = body_of(t.record), t.past or ''
  if t.deadline then body, t.deadline = string.sub(body, MOMENT_BYTES + 1), nil end
  local letter = struct.pack('>I7I2I2I1I2', at, t.attempts, t.max, priority_byte(t) + PAST_BEFORE, #error) .. error
  redis.call('HSET', q.dead, t.id, letter .. struct.pack('>I2', #past) .. past .. body)
  redis.call('ZADD', q.dead_ids, 0, t.id)
end

-- A run ends and the task waits again: from `due` on, or in its place from before the claim if `due` is nil.
local function back(q, t, due, wake)
  detach(q, t)
  t.flags, t.note = bit.band(t.flags, FAILED + HAS_PAST + (due and 0 or IN_PLACE)), nil
  if due and q.fifo and t.key then t.flags = t.flags + IN_PLACE end
  t.claim, t.claim_turn, t.till, t.worker, t.due = 0, 0, 0, '', due or t.due
  store_run(q, t)
  if t.key and not due then return_turn(q, t) end
  stand(q, t, wake)
end

-- Lets a held task run, if it has no dependency left.
local function resume_if_free(q, t, at)
  if beginning(q.dependencies, string.sub(t.record, 1, PLACE_BYTES), 1)[1] then return end
  detach(q, t)
  t.held = nil
  store_record(q, t, body_of(t.record))
  q.moment = at
  stand(q, t, true)
  q.moment = now
end

-- Keeps the end of a dependency for its dependent. A field is a place and the id of the dependency.
local function keep_result(q, field, at, how, what)
  redis.call('ZADD', q.result_ids, 0, field)
  redis.call('HSET', q.results, field, struct.pack('>I7I1', at, how) .. what)
end

-- Updates the dependents of a task that ended, up to `most` of them. Returns how many there were.
local function tell(q, ended, most)
  local at, id, kept = struct.unpack('>I7', ended), string.sub(ended, KIND_AT + 1), redis.call('HGET', q.unsettled, ended)
  local how, what = string.byte(kept), string.sub(kept, 2)
  local with, well = id .. '\0', how < END_CANCELLED or how == END_POPPED
  -- Dependents that keep waiting for a dead task are skipped.
  local from = '[' .. with .. (how == END_DEAD and '1' or '')
  local told = redis.call('ZRANGEBYLEX', q.dependents, from, '(' .. with .. '\255', 'LIMIT', '0', most)
  if #told < most then
    redis.call('ZREM', q.unsettled_ids, ended)
    redis.call('HDEL', q.unsettled, ended)
  end
  for _, member in ipairs(told) do
    local policy, first = string.sub(member, #with + 1, #with + 1), #with + 2
    local place = string.sub(member, first, first + PLACE_BYTES - 1)
    redis.call('ZREM', q.dependents, member)
    redis.call('ZREM', q.dependencies, place .. policy .. id)
    local t = load(q, string.sub(member, first + PLACE_BYTES))
    if t and t.held and string.sub(t.record, 1, PLACE_BYTES) == place then
      if well or policy == '2' then
        keep_result(q, place .. id, at, how, what)
        resume_if_free(q, t, at)
      else
        local why = how == END_DEAD and 'is dead: ' .. what or how == END_CANCELLED and 'was canceled'
          or how == END_DROPPED and 'was dropped' or 'was deleted'
        die(q, t, at, 'waited for ' .. id .. ', which ' .. why, true)
      end
    end
  end
  return #told
end

-- Deletes the links of a task that is gone, up to `most` of them. Returns how many there were.
local function unlink(q, gone, most)
  local place, id = string.sub(gone, KIND_AT + 1, KIND_AT + PLACE_BYTES), string.sub(gone, KIND_AT + 1 + PLACE_BYTES)
  local links, over = beginning(q.dependencies, place, most), beginning(q.result_ids, place, most)
  if #links + #over < most then redis.call('ZREM', q.unsettled_ids, gone) end
  in_chunks('ZREM', q.dependencies, links)
  in_chunks('ZREM', q.result_ids, over)
  in_chunks('HDEL', q.results, over)
  -- The same links by their dependencies.
  for at, link in ipairs(links) do
    local policy, other = string.sub(link, PLACE_BYTES + 1, PLACE_BYTES + 1), string.sub(link, PLACE_BYTES + 2)
    links[at] = other .. '\0' .. policy .. place .. id
  end
  in_chunks('ZREM', q.dependents, links)
  return #links + #over
end

-- Processes ends in the order in which they happened. True if more is left than one call processes.
local function settle(q)
  if not q.ended then return false end
  local room = TOLD_MAX
  while room > 0 do
    local first = redis.call('ZRANGE', q.unsettled_ids, '0', '0')[1]
    if not first then
      q.ended = nil
      return false
    end
    local n = string.sub(first, KIND_AT, KIND_AT) == TASK_ENDED and tell(q, first, room) or unlink(q, first, room)
    room = room - n - 1
  end
  return true
end

-- The first deadline of a waiting task, if any has one.
local function first_deadline(q)
  if not q.dated then return nil end
  local first = redis.call('ZRANGE', q.by_deadline, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) end
  q.dated = nil
  redis.call('HDEL', q.meta, 'has_deadlines')
end

-- The lower of a moment and the lowest score of a set.
local function with_head(first, set)
  local head = tonumber(redis.call('ZRANGE', set.key, '0', '0', 'WITHSCORES')[2])
  return head and math.min(first or head, head) or first
end

-- When the next waiting task may be claimed: the first due time, or when the rate allows more.
local function next_waiting(q)
  write_back_queue(q)
  local first
  for priority = 0, 9 do
    if is_used(q, priority) then first = with_head(first, waiting(q, priority)) end
  end
  local listed = at_once.head(q)
  if listed then first = math.min(first or listed, listed) end
  if not first or q.concurrency and redis.call('ZCARD', q.leases.key) >= q.concurrency then return nil end
  return q.rate_n and math.max(first, free_from(q)) or first
end

-- When the next task may be claimed: one that waits, or one whose lease ends.
local function next_to_assign(q)
  return with_head(next_waiting(q), q.leases)
end

-- The same, or the first deadline, because a task that dies may release others.
local function next_due(q)
  local first, deadline = next_to_assign(q), first_deadline(q)
  return deadline and math.min(first or deadline, deadline) or first
end

-- Wakes processes that wait for tasks: `Q`, tasks, wake-up count, name. A process that is gone is skipped.
local function ring(q, tasks)
  q.wakes = q.wakes + tasks
  q.changed = true
  local name, woken = string.match(q.meta, '^rg:{q:(.*)}:meta$'), 0
  while woken < math.min(tasks, WOKEN_MAX) do
    local inbox = redis.call('ZPOPMIN', q.listeners)[1]
    if not inbox then return end
    woken = woken + redis.call('PUBLISH', 'rg:in:' .. inbox, 'Q' .. tasks .. ' ' .. int(q.wakes) .. ' ' .. name)
  end
end

-- Wakes processes for the tasks that this call made due, or one for a due time that comes before all others.
local function wake_listeners(q)
  if q.woken > 0 then
    ring(q, q.woken)
  elseif q.soonest and redis.call('ZCARD', q.listeners) == 0 then
    -- A process that claimed before this call and listens after it sees that it missed a wake-up.
    q.wakes, q.changed = q.wakes + 1, true
  elseif q.soonest and next_to_assign(q) == math.max(q.soonest, free_from(q)) then
    ring(q, 1)
  end
end

-- Writes the queue's counters, and wakes the processes that wait for what was enqueued.
local function finish(q)
  -- Too many dependents for one call: a process is woken, whose call continues.
  if settle(q) then q.woken = q.woken + 1 end
  if q.finished then finished.forget(q, FORGOTTEN_MAX) end
  events.write(q)
  if q.latest_event then events.tell(q, '', 'E' .. int(q.latest_event)) end
  if q.dropped then redis.call('HINCRBY', q.meta, 'dropped', q.dropped) end
  write_back_queue(q)
  if not q.paused then wake_listeners(q) end
  if q.changed then
    local counters = struct.pack(COUNTERS, q.revision, q.arrival, q.claim, q.wakes, q.used, q.lines_waiting,
      q.skipped, q.listed_until)
    redis.call('HSET', q.meta, 'counters', counters)
  end
end

-- Moves tasks whose deadline has passed to the dead letters. True if more is left than one call processes.
local function delete_late(q)
  local first = first_deadline(q)
  if not first or first > now then return false end
  local late = redis.call('ZRANGEBYSCORE', q.by_deadline, '-inf', now_text(), 'LIMIT', '0', REAPED_MAX)
  for _, id in ipairs(late) do
    local t = load(q, id)
    q.moment = t.deadline
    die(q, t, t.deadline, LATE, true)
  end
  q.moment, q.changed = now, true
  if not settle(q) and #late < REAPED_MAX then return false end
  finish(q)
  return true
end

-- Processes ends that are left from earlier calls, then expired leases in order of their ends, then passed deadlines.
-- True if more is left than one call processes.
local function reap(q)
  if q.linked then
    q.ended = redis.call('EXISTS', q.unsettled_ids) == 1
    if not q.ended and redis.call('EXISTS', q.dependents, q.dependencies, q.result_ids) == 0 then
      q.linked = nil
      redis.call('HDEL', q.meta, 'has_dependencies')
    end
  end
  if settle(q) then
    finish(q)
    return true
  end
  local over = {}
  -- Counting is much cheaper than an empty range.
  if redis.call('ZCOUNT', q.leases.key, '-inf', now_text()) > 0 then
    over = redis.call('ZRANGEBYSCORE', q.leases.key, '-inf', now_text(), 'LIMIT', '0', REAPED_MAX)
  end
  for at, lease in ipairs(over) do
    over[at] = string.sub(lease, LEASE_BYTES + 1)
  end
  fetch_tasks(q, over)
  for _, id in ipairs(over) do
    local t = load(q, id)
    q.moment = t.till
    if promote(q, t) then
      -- The pending replacement waits now.
    elseif has(t, CANCEL_ASKED) then
      finish_task(q, t, t.till, END_CANCELLED, '')
    elseif t.attempts >= t.max then
      remember_run(t, t.till, RUN_LOST, 'lease expired')
      die(q, t, t.till, 'lease expired')
    elseif t.deadline and t.deadline <= t.till then
      remember_run(t, t.till, RUN_LOST, LATE)
      die(q, t, t.till, LATE)
    else
      remember_run(t, t.till, RUN_LOST, '')
      events.note(q, t.till, id, events.lost, t.attempts)
      back(q, t)
    end
  end
  q.moment, q.changed = now, q.changed or #over > 0
  if not settle(q) and #over < REAPED_MAX then return delete_late(q) end
  finish(q)
  return true
end
