-- Reports what the ledger has recorded, and returns the entries that it lacks: those of failed entries that are due
-- again, then those of the next events. One worker at a time follows a sale, under a lease.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    worker: 16 bytes; identifies the worker
-- ARGV[3]    generation: 0 to 4,294,967,295; of the report
-- ARGV[4]    through: 0 to 2^53 - 1; number of the latest event that the ledger has
-- ARGV[5]    events: 0 to 1,000; how many to read; 0 to give up the lease
-- ARGV[6]    lease: 10,000 to 86,400,000,000 µs; from now
-- ARGV[7..]  for each entry, 0 to 1,200 of them:
--              event: 0 to 2^53 - 1; its number
--              attempts: 0 to 4,294,967,295; how many have failed, 0 if the ledger has the entry now
--              retry after: 0 to 3,600,000,000 µs; from now
--              reason: text of at most 500 bytes
--
-- {1, generation, through, latest, entry, ...}
--   through: number of the last event that was read; latest: number of the sale's latest event
--   entry of a reservation: {event, attempts, reservation, hold}
--   entry of a stock change: {event, attempts, '', sku, total, limit per buyer, withdrawn units}
-- {2, until}  another worker follows the sale until then
-- {3}         the sale has no ledger
--
-- flags: allow-oom
-- include: now
-- include: failed
local RETRIES_MAX, WORK_MAX, FAILED_MAX = 100, 32000, 1000
-- A moment further away than the longest lease or delay, µs, is none that a worker got.
local LEASE_MAX, RETRY_MAX = 86400000000, 3600000000
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if not s.ledger then return { 3 } end
local row = redis.call('HMGET', s.row, 'through', 'worker', 'worker_until')
local through, worker, till = tonumber(row[1]), row[2], tonumber(row[3])
if worker and worker ~= ARGV[2] and till > now and till - now <= LEASE_MAX then return { 2, till } end

if worker == ARGV[2] and s.generation == tonumber(ARGV[3]) then
  through = math.max(through, math.min(tonumber(ARGV[4]), s.seq))
  for at = 7, #ARGV, 4 do
    local seq, attempts = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    if attempts == 0 then
      redis.call('ZREMRANGEBYSCORE', s.failed, seq, seq)
    elseif seq >= 1 and seq <= through then
      store_failed(s, seq, now + tonumber(ARGV[at + 2]), attempts, ARGV[at + 3])
    end
  end
end
local n = tonumber(ARGV[5])
if n == 0 then
  if worker == ARGV[2] then redis.call('HDEL', s.row, 'worker', 'worker_until') end
  redis.call('HSET', s.row, 'through', int(through))
  return { 1, s.generation, through, s.seq }
end

local entries, seen, work = {}, {}, 0

-- Adds the entry of an event. True if it has one: a settled reservation has none.
local function deliver(seq, attempts, event)
  local _, kind, of_hold = struct.unpack('>I7I1I1', event)
  if of_hold == 1 then
    local id = string.sub(event, 10, 25)
    local h = kind <= EXPIRING and load_hold(s, id)
    if not h or h.state > EXPIRING then return false end
    if not seen[id] then
      seen[id] = true
      entries[#entries + 1] = { seq, attempts, id, read(s.holds, id) }
      local ranges = ranges_of(h)
      for at = 1, #ranges, 3 do
        work = work + ranges[at + 2] - ranges[at + 1] + 1
      end
    end
    return true
  end
  if kind ~= STOCK_ADDED and kind ~= STOCK_WITHDRAWN then return false end
  local units = string.sub(event, 10)
  local no = struct.unpack(RANGE, units)
  local k, withdrawn = sku(s, no), kind == STOCK_WITHDRAWN and units or ''
  entries[#entries + 1] = { seq, attempts, '', no, k.total, k.per_buyer, withdrawn }
  work = work + #withdrawn / RANGE_BYTES
  return true
end

for _, member in ipairs(redis.call('ZRANGE', s.failed, 0, -1)) do
  local f = read_failed(member)
  if f.retry_at <= now or f.retry_at - now > RETRY_MAX then
    if #entries == RETRIES_MAX or work >= WORK_MAX then break end
    local event = redis.call('LINDEX', s.events, f.seq - 1)
    if not event or not deliver(f.seq, f.attempts, event) then redis.call('ZREM', s.failed, member) end
  end
end

local last = through
if redis.call('ZCARD', s.failed) < FAILED_MAX then
  -- In parts, because the events of large carts are large.
  local PART, stop = 100, through + n
  while last < stop and work < WORK_MAX do
    local events = redis.call('LRANGE', s.events, last, math.min(last + PART, stop) - 1)
    if #events == 0 then break end
    local ids = {}
    for _, event in ipairs(events) do
      if string.byte(event, 9) == 1 then ids[#ids + 1] = string.sub(event, 10, 25) end
    end
    fetch(s.holds, ids)
    for _, event in ipairs(events) do
      if work >= WORK_MAX then break end
      last = last + 1
      deliver(last, 0, event)
    end
  end
end
-- A batch without entries needs no report.
if #entries == 0 then through = last end
redis.call('HSET', s.row, 'through', int(through), 'worker', ARGV[2], 'worker_until', int(now + tonumber(ARGV[6])))
local answer = { 1, s.generation, last, s.seq }
for _, entry in ipairs(entries) do
  answer[#answer + 1] = entry
end
return answer
