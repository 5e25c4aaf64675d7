-- Replaces a sale with its staged sale, if the staged units match the stock.
--
-- KEYS[1-8]   the sale
-- KEYS[9-16]  the staged sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes
-- ARGV[3]     generation: 1 to 4,294,967,295; the new generation
-- ARGV[4]     grace: 0 to 3,600,000,000 µs; how long only receipts are honored after the switch
-- ARGV[5..]   for each SKU, 1 to 1,000 of them:
--               began with: 1 to 10,000,000; units in the specification
--               total: 1 to 10,000,000
--               handed out: 0 to 10,000,000; the highest number that an order has
--               ahead: 0 to 10,000,000; how many numbers above it were withdrawn
--
-- 1  the sale has resumed, by this or an earlier call
-- 0  another rebuild has begun since
-- 2  the staged units do not match the stock, or the generation is not higher
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local generation = tonumber(ARGV[3])
if s.by ~= ARGV[2] then return 0 end
if not s.halted then return s.generation == generation and 1 or 0 end
local loaded = sale_keys(9, ARGV[1])
if not loaded then return 0 end
if generation <= s.generation then return 2 end
for at = 5, #ARGV, 4 do
  if sku(loaded, (at - 5) / 4).ahead ~= ARGV[at + 2] + ARGV[at + 3] then return 2 end
end
for at = 5, #ARGV, 4 do
  local k, began, total = sku(loaded, (at - 5) / 4), tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  k.changed, k.total, k.next, k.ahead = true, total, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  if total > began then
    append(loaded, STOCK_ADDED, nil, pack_ranges(k.no, { began + 1, total }))
  end
end
loaded.status = s.status
close_sale(loaded)
local grace = tonumber(ARGV[4])
-- What was loaded came from the ledger.
redis.call('HSET', loaded.row, 'generation', ARGV[3], 'rebuild', ARGV[2], 'stopped_at', int(s.halted),
  'switched_at', int(now), 'receipts_until', grace > 0 and int(now + grace) or '', 'through', int(loaded.seq))
if s.listeners then
  loaded.listeners = s.listeners
  tell_listeners(loaded)
end
for at = 1, 8 do
  redis.call('UNLINK', KEYS[at])
  if redis.call('EXISTS', KEYS[at + 8]) == 1 then
    redis.call('RENAME', KEYS[at + 8], KEYS[at])
  end
end
return 1
