-- Claims the first due tasks under leases, for one or more requests.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1..]    for each request, 1 to 128 of them, for at most 1,000 tasks together:
--                op: 8 bytes
--                how many: 1 to 1,000
--                lease: 10,000 to 86,400,000,000 µs
--                worker: label; name of the claiming worker
--
-- {{next due, wake-ups, id, record, run, ...}, ...}  one list per request. Next due: 0 if as many were claimed as
--                                                    requested; otherwise how long until a task may be claimable,
--                                                    µs, or '' if none is known
--
-- flags: allow-oom
-- include: now
-- include: assign
-- include: once
local WIDTH, TASKS_MOST = 4, 1000
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.claim, WIDTH)
local answered = remembered_all(once)
if once.known == #once.ops then return answered end
local wanted = 0
for request = 1, #once.ops do
  if not answered[request] then wanted = wanted + tonumber(ARGV[WIDTH * request - 2]) end
end
if wanted > TASKS_MOST then return { err = 'INVALID the requests are for more than 1,000 tasks together' } end
if prepare(q) then return AGAIN end
local given = q.paused and tasks.none() or assign(q, wanted, true)
local ids, records, runs = given.ids, given.records, given.runs

local taken, first, turn, short = 0, nil, TURNS, {}
local new_runs, new_leases = {}, {}
if #ids > 0 then q.claim = math.max(q.claim, now - 1) end

local function claim(n, lease, worker)
  local till, answer = now + lease, { q.paused and '' or 0, q.wakes }
  -- The parts that all first runs of this request share, before and after their due time.
  local char, byte, sub = string.char, string.byte, string.sub
  local till_text, behind = int(till), char(#worker) .. worker
  local before = struct.pack('>I2I1I7', 1, LEASED, till)
  local before_of_key = struct.pack('>I2I1I7', 1, LEASED + OF_KEY, till)
  n = math.min(n, #ids - taken)
  for at = 1, n do
    local no = taken + at
    local id, record, run = ids[no], records[no], runs[no]
    turn = turn + 1
    if turn >= TURNS then first, turn = struct.pack('>I7', q.claim + at), 0 end
    local number, priority, attempt = first .. char(turn), byte(record, PRIORITY_AT), 1
    if not run then
      local due_from = priority % DATED >= LISTED and FIRST_FROM or DUE_FROM
      local moment = sub(record, due_from, due_from + MOMENT_BYTES - 1)
      run = number .. (priority % LISTED >= KEYED and before_of_key or before) .. moment .. behind
    else
      local t = task_of(id, record, run)
      t.attempts, t.flags, t.till, t.worker = t.attempts + 1, t.flags + LEASED, till, worker
      if t.key then t.flags = bit.bor(t.flags, OF_KEY) end
      attempt, run = t.attempts, number .. sub(pack_run(t), LEASE_BYTES + 1)
    end
    new_runs[2 * no - 1], new_runs[2 * no] = id, run
    new_leases[2 * no - 1], new_leases[2 * no] = till_text, number .. id
    if q.events_n then
      events.note(q, now, id, events.claimed, attempt, struct.unpack('>I7', run, RUN_BYTES - MOMENT_BYTES + 1), worker)
    end
    answer[3 * at], answer[3 * at + 1], answer[3 * at + 2] = id, record, run
  end
  q.claim, taken = q.claim + n, taken + n
  return answer
end

local answers = {}
for request = 1, #once.ops do
  local answer = answered[request]
  if not answer then
    local _, n, lease, worker = unpack(ARGV, WIDTH * request - 3, WIDTH * request)
    answer = claim(tonumber(n), tonumber(lease), worker)
    if #answer < 2 + 3 * n and not q.paused then short[#short + 1] = answer end
  end
  answers[request] = answer
end
add_all(q.runs, new_runs)
add_all(q.leases, new_leases)
if short[1] then
  local due = next_due(q)
  for _, answer in ipairs(short) do
    answer[1] = due and math.max(due - now, 0) or ''
  end
else
  pass_on(q)
end
finish(q)
return remember_all(once, answers)
