-- A sale. Its eight keys, in this order:
--   row        HASH  the state of the sale, such as status (0 created, 1 open, 2 ended), seq (number of the latest event)
--                    and halted_at ('' if it is not halted); sku:<n> -> SKU, of the n-th, from 0
--   returned   ZSET  units that are free again
--   withdrawn  ZSET  ranges of units that were removed from the sale
--   buyers     HASH  buyer NUL sku -> units held or sold
--   holds      HASH  reservation -> hold
--   deadlines  ZSET  undecided hold -> deadline
--   events     LIST  all events, in order
--   failed     ZSET  entries that the ledger could not record
--
-- Records in answers:
--   hold   state(1) deadline(7) event(6) generation(4) lines' length(2) buyer's length(1) buyer lines units
--          lines: the cart as it was requested, or '' in a hold that was restored after a loss
--          units: ranges, each sku(2) first(4) last(4)
--   sku    total(4) next(4) ahead(4) returned(4) held(4) confirmed(4) withdrawn(4) per buyer(2)
--          free are total - next - ahead + returned
--   event  at(7) kind(1), then 1 and the reservation, or 0; units as in a hold
--
-- internals:
--   row        secret; generation; hold_us; opens_at, closes_at: '' for never; ledger: 1 if a ledger records the orders;
--              halt_reason (the position in `HaltReason::ALL`); rebuild, the latest one; stopped_at, when the generation
--              before was halted; switched_at, when this one replaced it; receipts_until, until when only receipts are
--              honored; through, the number of the latest event that was delivered to the ledger; worker and
--              worker_until, of the order worker that follows the sale; listeners, inboxes(16 each) to notify of the next
--              event
--              next, of a SKU: numbers 1..next were handed out or skipped at least once. Those above are fresh, except
--              for the withdrawn ones, which `ahead` counts
--   returned   sku * 2^24 + unit, as member and score
--   withdrawn  sku(2) first(4) last(4) -> sku * 2^24 + last. Ranges do not overlap, and none spans `next`
--   deadlines  event(6) reservation
--   failed     retry at(7) event(7) attempts(4) reason -> event
-- A rebuild stages the new sale under eight other keys, and the switch renames them. States and kinds are the codes of
-- `HoldState` and `EventKind`.
-- include: draft
-- codes: HoldState
-- codes: EventKind
-- codes: HaltReason
-- How long a buyer should wait before asking again while the sale is halted, µs.
local ASK_AGAIN_AFTER = 2000000
local SKU = '>I4I4I4I4I4I4I4I2'
local HOLD, HOLD_BYTES = '>I1I7I6I4I2I1', 21
local RANGE, RANGE_BYTES = '>I2I4I4', 10
local SHELF = 16777216
-- There is no such sale under these keys, or another one: the client must read the specification again.
local MISSING = { ok = 'MISSING' }

local function sale_keys(first, secret)
  local s = {
    row = KEYS[first], returned = KEYS[first + 1], withdrawn = KEYS[first + 2], buyers = hash(KEYS[first + 3]),
    holds = hash(KEYS[first + 4]), deadlines = sorted_set(KEYS[first + 5]), events = KEYS[first + 6],
    failed = KEYS[first + 7], skus = {}, new_events = {}, stamps = {}, beginnings = {}, middles = {},
  }
  local row = redis.call('HMGET', s.row, 'secret', 'status', 'generation', 'seq', 'hold_us', 'opens_at', 'closes_at',
    'ledger', 'halted_at', 'halt_reason', 'rebuild', 'stopped_at', 'switched_at', 'receipts_until', 'listeners')
  if row[1] ~= secret then return nil end
  s.status, s.generation, s.seq, s.hold = row[2], tonumber(row[3]), tonumber(row[4]), tonumber(row[5])
  s.opens, s.closes, s.ledger = tonumber(row[6]), tonumber(row[7]), row[8] == '1'
  s.halted, s.reason, s.by = tonumber(row[9]), tonumber(row[10]), row[11]
  s.stopped, s.switched, s.receipts = tonumber(row[12]), tonumber(row[13]), tonumber(row[14])
  s.listeners = row[15]
  return s
end

local function read_sku(s, no, packed)
  if not packed then return nil end
  local k = { no = no, suffix = '\0' .. no }
  k.total, k.next, k.ahead, k.returned, k.held, k.confirmed, k.withdrawn, k.per_buyer = struct.unpack(SKU, packed)
  s.skus[no] = k
  return k
end

local function sku(s, no)
  return s.skus[no] or read_sku(s, no, redis.call('HGET', s.row, 'sku:' .. no))
end

-- How many units of a SKU a buyer has.
local function units_of(s, buyer, k)
  return tonumber(read(s.buyers, buyer .. k.suffix)) or 0
end

local function count_units(s, buyer, k, n)
  local field = buyer .. k.suffix
  n = (tonumber(read(s.buyers, field)) or 0) + n
  set_field(s.buyers, field, n == 1 and '1' or n > 0 and int(n))
end

local function pack_sku(k)
  return struct.pack(SKU, k.total, k.next, k.ahead, k.returned, k.held, k.confirmed, k.withdrawn, k.per_buyer)
end

-- How many numbers are free and were never handed out.
local function fresh_of(k)
  return k.total - k.next - k.ahead
end

local function free_of(k)
  return fresh_of(k) + k.returned
end

-- The scores of a SKU's units, from one number to another.
local function scores(k, first, last)
  return k.no * SHELF + first, k.no * SHELF + last
end

-- Notifies the processes that wait for an event, once.
local function tell_listeners(s)
  local message = 'S' .. int(s.seq) .. ' ' .. string.match(s.row, '^rg:{s:(.*)}:')
  for at = 1, #s.listeners, 16 do
    redis.call('PUBLISH', 'rg:in:' .. string.sub(s.listeners, at, at + 15), message)
  end
  redis.call('HDEL', s.row, 'listeners')
end

-- Writes the buffers and counters of the sale.
local function close_sale(s)
  write_back(s.buyers)
  write_back(s.holds)
  write_back(s.deadlines)
  in_chunks('RPUSH', s.events, s.new_events)
  if s.listeners and #s.new_events > 0 then tell_listeners(s) end
  s.new_events = {}
  local fields = { 'status', s.status, 'seq', int(s.seq) }
  for no, k in pairs(s.skus) do
    if k.changed then
      table.insert(fields, 'sku:' .. no)
      table.insert(fields, pack_sku(k))
    end
  end
  redis.call('HSET', s.row, unpack(fields))
end

local function append(s, kind, reservation, units)
  s.seq = s.seq + 1
  local new_events, stamp = s.new_events, s.stamps[kind]
  if not stamp then
    stamp = struct.pack('>I7I1', now, kind)
    s.stamps[kind] = stamp
  end
  new_events[#new_events + 1] = reservation and stamp .. '\1' .. reservation .. units or stamp .. '\0' .. units
end

-- Halts the sale until it is rebuilt.
local function halt(s, reason)
  if s.halted then return end
  s.halted = now
  redis.call('HSET', s.row, 'halted_at', now, 'halt_reason', reason)
  append(s, HALTED, nil, '')
end

-- When to ask again, if no new reservation is accepted at the moment.
local function retry_at(s)
  if s.halted then return now + ASK_AGAIN_AFTER end
  return s.receipts and now < s.receipts and s.receipts or nil
end

-- The numbers from `first` to `last` are free again.
local function shelve(s, k, first, last)
  local members = {}
  for code = k.no * SHELF + first, k.no * SHELF + last do
    members[#members + 1] = code
    members[#members + 1] = code
  end
  in_chunks('ZADD', s.returned, members)
  k.returned = k.returned + last - first + 1
end

-- Appends to a list of ranges, {first, last, first, last, ...}.
local function add_range(ranges, first, last)
  if ranges[#ranges] == first - 1 then
    ranges[#ranges] = last
  else
    table.insert(ranges, first)
    table.insert(ranges, last)
  end
end

local function pack_ranges(no, ranges)
  if #ranges == 2 then return struct.pack(RANGE, no, ranges[1], ranges[2]) end
  local packed = {}
  for at = 1, #ranges, 2 do
    table.insert(packed, struct.pack(RANGE, no, ranges[at], ranges[at + 1]))
  end
  return table.concat(packed)
end

local function withdraw(s, no, ranges)
  local members = {}
  for at = 1, #ranges, 2 do
    table.insert(members, no * SHELF + ranges[at + 1])
    table.insert(members, struct.pack(RANGE, no, ranges[at], ranges[at + 1]))
  end
  in_chunks('ZADD', s.withdrawn, members)
end

-- The first fresh numbers at or above `from` that are not withdrawn, as a range; nil if there are none.
local function fresh_from(s, k, from)
  local first, last = math.max(k.next + 1, from), k.total
  while k.ahead > 0 do
    local low, high = scores(k, first, SHELF - 1)
    local range = redis.call('ZRANGEBYSCORE', s.withdrawn, low, high, 'LIMIT', '0', '1')[1]
    if not range then break end
    local _, from_here, to_here = struct.unpack(RANGE, range)
    if first < from_here then
      last = from_here - 1
      break
    end
    first = to_here + 1
  end
  if first <= last then return first, last end
end

-- Marks fresh numbers as handed out or skipped. Those below them that were not marked are withdrawn.
local function pass(k, first, last)
  k.ahead, k.next, k.changed = k.ahead - (first - k.next - 1), last, true
end

-- Takes returned numbers, the lowest or the highest.
local function take_returned(s, k, n, lowest)
  local ranges = {}
  if n == 0 then return ranges end
  local low, high = scores(k, 0, SHELF - 1)
  local codes
  if lowest then
    codes = redis.call('ZRANGEBYSCORE', s.returned, low, high, 'LIMIT', '0', n)
    redis.call('ZREMRANGEBYSCORE', s.returned, low, codes[#codes])
    for _, code in ipairs(codes) do
      add_range(ranges, code - k.no * SHELF, code - k.no * SHELF)
    end
  else
    codes = redis.call('ZREVRANGEBYSCORE', s.returned, high, low, 'LIMIT', '0', n)
    redis.call('ZREMRANGEBYSCORE', s.returned, codes[#codes], high)
    for at = #codes, 1, -1 do
      add_range(ranges, codes[at] - k.no * SHELF, codes[at] - k.no * SHELF)
    end
  end
  k.returned, k.changed = k.returned - n, true
  return ranges
end

-- Takes the lowest free numbers of a SKU: returned ones, then fresh ones. The caller has checked that there are enough.
local function take_lowest(s, k, n)
  local ranges = {}
  if k.returned > 0 then
    local again = math.min(k.returned, n)
    ranges, n = take_returned(s, k, again, true), n - again
  end
  while n > 0 do
    local first, last = fresh_from(s, k, 1)
    last = math.min(last, first + n - 1)
    pass(k, first, last)
    add_range(ranges, first, last)
    n = n - (last - first + 1)
  end
  return ranges
end

local function read_hold(id, packed)
  local h = { id = id }
  local lines, buyer
  h.state, h.deadline, h.seq, h.generation, lines, buyer = struct.unpack(HOLD, packed)
  h.buyer = string.sub(packed, HOLD_BYTES + 1, HOLD_BYTES + buyer)
  h.lines = string.sub(packed, HOLD_BYTES + buyer + 1, HOLD_BYTES + buyer + lines)
  h.units = string.sub(packed, HOLD_BYTES + buyer + lines + 1)
  return h
end

local function load_hold(s, id)
  local packed = read(s.holds, id)
  return packed and read_hold(id, packed)
end

local function pack_hold(h)
  return struct.pack(HOLD, h.state, h.deadline, h.seq, h.generation, #h.lines, #h.buyer) .. h.buyer .. h.lines .. h.units
end

local function store_hold(s, h)
  set_field(s.holds, h.id, pack_hold(h))
end

local function deadline_of(h)
  return struct.pack('>I6', h.seq) .. h.id
end

-- The ranges of a hold, unpacked: {sku, first, last, sku, first, last, ...}
local function ranges_of(h)
  if not h.ranges then
    local ranges, n = {}, 0
    for at = 1, #h.units, RANGE_BYTES do
      ranges[n + 1], ranges[n + 2], ranges[n + 3] = struct.unpack(RANGE, h.units, at)
      n = n + 3
    end
    h.ranges = ranges
  end
  return h.ranges
end

-- Writes a new hold: its event, row and deadline. Parts that holds of one call share are packed once.
local function write_hold(s, id, buyer, lines, deadline, units)
  append(s, HELD, id, units)
  local beginning, lengths = s.beginnings[deadline], #lines * 256 + #buyer
  local middle, event = s.middles[lengths], struct.pack('>I6', s.seq)
  if not beginning then
    beginning = struct.pack('>I1I7', HELD, deadline)
    s.beginnings[deadline] = beginning
  end
  if not middle then
    middle = struct.pack('>I4I2I1', s.generation, #lines, #buyer)
    s.middles[lengths] = middle
  end
  local packed = beginning .. event .. middle .. buyer .. lines .. units
  set_field(s.holds, id, packed)
  add_at(s.deadlines, deadline, event .. id)
  return packed
end

-- Adds a reservation that has these packed units.
local function enter_hold(s, h)
  local ranges = ranges_of(h)
  for at = 1, #ranges, 3 do
    local k, n = sku(s, ranges[at]), ranges[at + 2] - ranges[at + 1] + 1
    k.changed, k.held = true, k.held + n
    count_units(s, h.buyer, k, n)
  end
  local packed = write_hold(s, h.id, h.buyer, h.lines, h.deadline, h.units)
  h.state, h.seq, h.generation = HELD, s.seq, s.generation
  return packed
end

-- Ends a reservation: its units are sold, free again, or withdrawn.
local function end_hold(s, h, kind)
  h.state = kind == QUARANTINED and REJECTED or kind
  store_hold(s, h)
  take_out(s.deadlines, deadline_of(h))
  local ranges = ranges_of(h)
  for at = 1, #ranges, 3 do
    local no, first, last = ranges[at], ranges[at + 1], ranges[at + 2]
    local k, n = sku(s, no), last - first + 1
    k.changed, k.held = true, k.held - n
    if kind == CONFIRMED then
      k.confirmed = k.confirmed + n
    else
      count_units(s, h.buyer, k, -n)
    end
    if kind == QUARANTINED then
      k.withdrawn = k.withdrawn + n
      withdraw(s, no, { first, last })
    elseif kind ~= CONFIRMED then
      shelve(s, k, first, last)
    end
  end
  append(s, kind, h.id, h.units)
end

-- Decides an undecided hold: to its final state, or with a ledger to the state that waits for the ledger to commit.
local MIDDLE = { confirm = CONFIRMING, cancel = CANCELLING, expire = EXPIRING }
local LAST = { confirm = CONFIRMED, cancel = CANCELLED, expire = EXPIRED }
local function decide(s, h, intent)
  if not s.ledger then
    return end_hold(s, h, LAST[intent])
  end
  h.state = MIDDLE[intent]
  store_hold(s, h)
  take_out(s.deadlines, deadline_of(h))
  append(s, h.state, h.id, '')
end

-- Expires holds whose deadline has passed.
local function expire(s, expired)
  for _, deadline in ipairs(expired) do
    decide(s, load_hold(s, string.sub(deadline, 7)), 'expire')
  end
end

local function expired_holds(s, n)
  write_back(s.deadlines)
  return redis.call('ZRANGEBYSCORE', s.deadlines.key, '-inf', now_text(), 'LIMIT', '0', n)
end

local function next_expiry(s)
  local head = redis.call('ZRANGE', s.deadlines.key, '0', '0', 'WITHSCORES')
  return head[2] and int(tonumber(head[2])) or ''
end
