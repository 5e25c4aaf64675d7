-- Begins to rebuild a sale from its ledger: halts the sale, and creates an empty staged sale.
--
-- KEYS[1-8]   the sale
-- KEYS[9-16]  the staged sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes; unique per rebuild
-- ARGV[3]     how many: 1 to 1,000; number of SKUs in the sale
--
-- 1  begun, by this or an earlier call
-- 2  the sale has no ledger
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if not s.ledger then return 2 end
if s.by == ARGV[2] then return 1 end
halt(s, REBUILDING)
redis.call('HSET', s.row, 'rebuild', ARGV[2], 'halt_reason', REBUILDING)
close_sale(s)
redis.call('UNLINK', unpack(KEYS, 9, 16))
local kept = redis.call('HMGET', s.row, 'opens_at', 'closes_at')
redis.call('HSET', KEYS[9], 'secret', ARGV[1], 'status', s.status, 'generation', 0, 'seq', 0, 'hold_us', int(s.hold),
  'opens_at', kept[1], 'closes_at', kept[2], 'ledger', 1)
local loaded = sale_keys(9, ARGV[1])
for no = 0, tonumber(ARGV[3]) - 1 do
  local k = sku(s, no)
  -- The switch sets how many units there are. Until then, `ahead` counts the units that were loaded.
  loaded.skus[no] = {
    no = no, total = 0, next = 0, ahead = 0, returned = 0, held = 0, confirmed = 0, withdrawn = 0,
    per_buyer = k.per_buyer, changed = true,
  }
end
append(loaded, REBUILT, nil, '')
close_sale(loaded)
return 1
