-- Creates a sale whose specification has been stored. Creating it again changes nothing.
--
-- KEYS[1-7]   the sale (include/sale.lua)
-- KEYS[8-28]  the order queue (include/queue.lua), if the sale has one; reserved by `rushgate_1_sale_orders`
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     hold time: 10,000 to 2,592,000,000,000 µs
-- ARGV[3]     opens: 0 to 18,446,744,073,709,551,615 or ''; moment in µs
-- ARGV[4]     closes: 0 to 18,446,744,073,709,551,615 or ''; moment in µs
-- ARGV[5]     ledger: 0 or 1; 1 if a ledger is the system of record
-- ARGV[6]     id: name as JSON
-- ARGV[7..]   for each SKU, 1 to 1,000 of them:
--               units: 1 to 10,000,000
--               limit per buyer: 1 to 10,000
--               sku: name as JSON, each once
--
-- 1
-- include: now
-- include: sale
if ARGV[5] == '1' and not queue_keys(8).reserved then
  return { err = 'INVALID the order queue is not reserved' }
end
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
