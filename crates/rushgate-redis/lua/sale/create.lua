-- Creates a sale, if its id is free. Creating it again changes nothing.
--
-- KEYS[1]    the sale's home
-- KEYS[2-9]  the sale
-- ARGV[1]    specification: specification
-- ARGV[2]    secret: 16 bytes; of the specification, as are the other arguments
-- ARGV[3]    hold time: 10,000 to 2,592,000,000,000 µs
-- ARGV[4]    opens: 0 to 2^64 - 1 or ''; moment in µs
-- ARGV[5]    closes: 0 to 2^64 - 1 or ''; moment in µs
-- ARGV[6]    ledger: 0 or 1; 1 if a ledger records the orders
-- ARGV[7..]  for each SKU, 1 to 1,000 of them:
--              units: 1 to 10,000,000
--              limit per buyer: 1 to 10,000
--
-- 1  created, by this or an earlier call
-- 0  another sale has the id
-- include: now
-- include: sale
local home = redis.call('GET', KEYS[1])
if home and home ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
if not sale_keys(2, ARGV[2]) then
  local row = KEYS[2]
  for at = 7, #ARGV, 2 do
    local k = { total = tonumber(ARGV[at]), next = 0, ahead = 0, returned = 0, held = 0, confirmed = 0, withdrawn = 0 }
    k.per_buyer = tonumber(ARGV[at + 1])
    redis.call('HSET', row, 'sku:' .. (at - 7) / 2, pack_sku(k))
  end
  redis.call('HSET', row, 'secret', ARGV[2], 'status', 0, 'generation', 1, 'seq', 0, 'hold_us', ARGV[3],
    'opens_at', ARGV[4], 'closes_at', ARGV[5], 'ledger', ARGV[6], 'through', 0)
end
return 1
