-- Begins to rebuild a sale from its ledger: halts the sale, and creates an empty staged sale.
--
-- KEYS[1-7]   the sale (include/sale.lua)
-- KEYS[8-14]  the staged sale (include/sale.lua)
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
redis.call('HSET', s.row, 'B', ARGV[2], 'r', REBUILDING)
close_sale(s)
redis.call('UNLINK', unpack(KEYS, 8, 14))
local kept = redis.call('HMGET', s.row, 'H', 'o', 'x', 'L', 'j')
redis.call('HSET', KEYS[8], 'k', ARGV[1], 's', s.status, 'g', 0, 'q', 0, 'H', kept[1], 'o', kept[2], 'x', kept[3],
  'L', kept[4], 'j', kept[5])
local loaded = sale_keys(8, ARGV[1])
for no = 0, tonumber(ARGV[3]) - 1 do
  local k = sku(s, no)
  -- The switch sets how many units there are. Until then, `ahead` counts the units that were loaded.
  loaded.skus[no] = {
    no = no, total = 0, next = 0, ahead = 0, returned = 0, held = 0, confirmed = 0, withdrawn = 0,
    per_buyer = k.per_buyer, json = k.json, changed = true,
  }
end
append(loaded, REBUILT, nil, '')
close_sale(loaded)
return 1
