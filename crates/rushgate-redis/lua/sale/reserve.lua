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
-- {10, retry at}                nobody is let in for the moment: the sale is stopped, or honours receipts only
-- include: now
-- include: queue
-- include: put
-- include: sale
-- include: take
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local id, buyer, same = ARGV[2], ARGV[3], ARGV[4] == '1'
local packed = redis.call('HGET', s.holds, id)
if packed then
  local lines = read_hold(id, packed).lines
  if lines ~= ARGV[5] and lines ~= '' then return { 3 } end
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

if retry_at(s) then return { 10, retry_at(s) } end
read_wanted(s, wanted)

-- What is in the way: the limit, or the first line that is short.
local function in_the_way()
  return over_limit(s, wanted, buyer) or short_of(s, wanted, same)
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
  local h = { id = id, buyer = buyer, lines = ARGV[5], deadline = now + s.hold, units = take(s, wanted, same) }
  enter_hold(s, h)
  order(s, q, h, 'hold')
  packed = pack_hold(h)
end
close_sale(s)
if q then finish(q) end
return refusal or { 1, packed }
