-- Makes a sale whose specification has been entered. Making it again changes nothing.
--
-- KEYS[1-8]  the sale (include/sale.lua)
-- ARGV[1]    secret, 16 bytes
-- ARGV[2]    hold time, µs
-- ARGV[3]    opens, µs, or ''
-- ARGV[4]    closes, µs, or ''
-- ARGV[5]    1 if a ledger has the last word
-- ARGV[6]    the id as JSON
-- ARGV[7..]  for each SKU: units, limit per buyer, its name as JSON
--
-- 1
-- include: now
-- include: queue
-- include: put
-- include: sale
if not sale_keys(1, ARGV[1]) then
  local row = KEYS[1]
  for at = 7, #ARGV, 3 do
    local k = { total = tonumber(ARGV[at]), next = 0, ahead = 0, returned = 0, held = 0, confirmed = 0, withdrawn = 0 }
    k.per_buyer, k.json = tonumber(ARGV[at + 1]), ARGV[at + 2]
    redis.call('HSET', row, 'S' .. (at - 7) / 3, pack_sku(k))
  end
  redis.call('HSET', row, 'k', ARGV[1], 's', 0, 'g', 1, 'q', 0, 'H', ARGV[2], 'o', ARGV[3], 'x', ARGV[4],
    'L', ARGV[5], 'j', ARGV[6])
end
return 1
