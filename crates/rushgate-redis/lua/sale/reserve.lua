-- Takes numbered units for a buyer, all or nothing, and puts the order into its queue.
--
-- KEYS[1-8]   the sale (include/sale.lua)
-- KEYS[9-26]  the orders' queue (include/queue.lua), if the sale has one
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     reservation: 16 bytes
-- ARGV[3]     buyer: name
-- ARGV[4]     same: 0 or 1; 1 for the same number in every line
-- ARGV[5]     asked: text of at most 8,000 bytes; what is asked for, as it is compared when the key comes again
-- ARGV[6..]   for each line, 1 to 32 of them:
--               sku: -1 to 999, each once; its number in the sale, -1 if the sale has none such
--               quantity: 1 to 1,000
--
-- {1, hold}                     reserved
-- {2, hold}                     made before under this key
-- {3}                           the key was used with other lines
-- {4, sku, free}                sold out
-- {5, sku, free, give-back}     all held; the earliest deadline or ''
-- {6, sku, limit, has}          over the limit
-- {7}                           not open
-- {8}                           ended
-- {9, line}                     no such SKU; lines count from 0
-- include: now
-- include: queue
-- include: put
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local id, buyer, same = ARGV[2], ARGV[3], ARGV[4] == '1'
local packed = redis.call('HGET', s.holds, id)
if packed then
  if read_hold(id, packed).lines ~= ARGV[5] then return { 3 } end
  return { 2, packed }
end
local wanted = {}
for at = 6, #ARGV, 2 do
  if ARGV[at] == '-1' then return { 9, (at - 6) / 2 } end
  table.insert(wanted, { no = tonumber(ARGV[at]), n = tonumber(ARGV[at + 1]) })
end
if s.status == '2' then return { 8 } end
if s.status == '0' or (s.opens and now < s.opens) then return { 7 } end
if s.closes and s.closes <= now then return { 8 } end

local fields, counts = {}, {}
for _, line in ipairs(wanted) do
  table.insert(fields, 'S' .. line.no)
  table.insert(counts, buyer .. '\0' .. line.no)
end
for at, of_sku in ipairs(redis.call('HMGET', s.row, unpack(fields))) do
  read_sku(s, wanted[at].no, of_sku)
end

local function lowest_free(k, from)
  local fresh = math.max(k.next + 1, from)
  fresh = fresh <= k.total and fresh or nil
  if k.returned == 0 then return fresh end
  local low, high = int(k.no * SHELF + from), int(k.no * SHELF + SHELF - 1)
  local again = redis.call('ZRANGEBYSCORE', s.returned, low, high, 'LIMIT', 0, 1)[1]
  again = again and tonumber(again) - k.no * SHELF
  return again and fresh and math.min(again, fresh) or again or fresh
end

-- The lowest number that is free in every line: each line is asked for its lowest from the candidate on, and the
-- highest answer is the next candidate, until all agree.
local function common()
  local candidate = 1
  while true do
    local highest = candidate
    for _, line in ipairs(wanted) do
      local free = lowest_free(s.skus[line.no], candidate)
      if not free then return nil end
      highest = math.max(highest, free)
    end
    if highest == candidate then return candidate end
    candidate = highest
  end
end

-- What is in the way: the limit, or the first line that is short.
local function in_the_way()
  local has = redis.call('HMGET', s.buyers, unpack(counts))
  for at, line in ipairs(wanted) do
    local k, mine = s.skus[line.no], tonumber(has[at] or 0)
    if mine + line.n > k.per_buyer then return { 6, line.no, k.per_buyer, mine } end
  end
  local short
  for _, line in ipairs(wanted) do
    if not short and free_of(s.skus[line.no]) < line.n then short = line.no end
  end
  if not short and same and not common() then short = wanted[1].no end
  if not short then return nil end
  local k = s.skus[short]
  if k.held == 0 then return { 4, short, free_of(k) } end
  return { 5, short, free_of(k), next_give_back(s) }
end

local refusal = in_the_way()
local overdue = refusal and overdue_holds(s, 100)
if refusal and #overdue == 0 then return refusal end
refuse_when_full(s)
local q = s.ledger and queue_keys(9)
if q and reap(q) then return AGAIN end
if refusal then
  -- Holds that ran out may be all that is in the way.
  expire(s, q, overdue)
  refusal = in_the_way()
end
if not refusal then
  local units, owners = {}, {}
  local number = same and common()
  for at, line in ipairs(wanted) do
    local k, taken = s.skus[line.no], { number }
    if not number then
      taken = take_lowest(s, k, line.n)
    elseif number > k.next then
      -- Numbers below it that were never handed out stay free, as if they had been given back.
      shelve(s.returned, k.no, k.next + 1, number - 1)
      k.returned = k.returned + number - k.next - 1
      k.next = number
    else
      redis.call('ZREM', s.returned, int(k.no * SHELF + number))
      k.returned = k.returned - 1
    end
    k.changed, k.held = true, k.held + #taken
    for _, unit in ipairs(taken) do
      local of_unit = struct.pack(UNIT, k.no, unit)
      table.insert(units, of_unit)
      table.insert(owners, of_unit)
      table.insert(owners, id)
    end
    redis.call('HINCRBY', s.buyers, counts[at], #taken)
  end
  in_chunks('HSET', s.owners, owners)
  local h = {
    id = id, state = HELD, deadline = now + s.hold, seq = s.seq + 1, generation = s.generation, buyer = buyer,
    lines = ARGV[5], units = table.concat(units),
  }
  append(s, 0, id, h.units)
  store_hold(s, h)
  redis.call('ZADD', s.deadlines, int(h.deadline), deadline_of(h))
  order(s, q, h, 'hold')
  packed = pack_hold(h)
end
close_sale(s)
if q then finish(q) end
return refusal or { 1, packed }
