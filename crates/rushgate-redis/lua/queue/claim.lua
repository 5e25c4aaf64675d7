-- Claims the first due tasks under a lease.
--
-- KEYS[1-21]   the queue (include/queue.lua)
-- KEYS[22-23]  the client's replay cache (include/once.lua)
-- ARGV[1]      op: 8 bytes; unique per call of this client; reuse it to retry the call
-- ARGV[2]      how many: 1 to 1,000
-- ARGV[3]      lease: 10,000 to 86,400,000,000 µs
-- ARGV[4]      worker: label; name of the claiming worker
--
-- {next due, wake-ups, id, record, run, ...}  next due: 0 if as many were claimed as requested; otherwise how long
--                                             until a task may be claimable, µs, or '' if none is known
--
-- flags: allow-oom
-- include: now
-- include: give
-- include: once
local q, once = queue_keys(1), replay_keys(22, ARGV[1])
allow_when_full(q)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
if q.paused then
  finish(q)
  return remember(once, { '', q.wakes })
end
local n, till = tonumber(ARGV[2]), now + tonumber(ARGV[3])
local ids, records, runs = give_out(q, n, true)
answer = { 0, q.wakes }
if #ids > 0 then
  q.claim = math.max(q.claim, now - 1)
  local first, turn, worker = nil, TURNS, ARGV[4]
  -- The parts that all first runs of this call share, before and after their due time.
  local till_text, behind = int(till), string.char(#worker) .. worker
  local before = struct.pack('>I2I1I7', 1, LEASED, till)
  local before_of_key = struct.pack('>I2I1I7', 1, LEASED + OF_KEY, till)
  for at, id in ipairs(ids) do
    q.claim, turn = q.claim + 1, turn + 1
    if turn >= TURNS then first, turn = struct.pack('>I7', q.claim), 0 end
    local claim, record, run = first .. string.char(turn), records[at], runs[at]
    local has_key, attempt = string.byte(record, PRIORITY_AT) % DATED >= KEYED, 1
    if run then
      local t = task_of(id, record, run)
      t.attempts, t.flags, t.till, t.worker = t.attempts + 1, t.flags + LEASED, till, worker
      if has_key then t.flags = bit.bor(t.flags, OF_KEY) end
      attempt, run = t.attempts, claim .. string.sub(pack_run(t), LEASE_BYTES + 1)
    else
      run = claim .. (has_key and before_of_key or before) .. string.sub(record, DUE_FROM, DUE_TO) .. behind
    end
    add(q.runs, id, run)
    add(q.leases, till_text, claim .. id)
    if q.events_n then events.note(q, now, id, events.claimed, attempt, 0, worker) end
    answer[3 * at], answer[3 * at + 1], answer[3 * at + 2] = id, record, run
  end
end
if #ids < n then
  local next = next_due(q)
  answer[1] = next and math.max(next - now, 0) or ''
end
finish(q)
return remember(once, answer)
