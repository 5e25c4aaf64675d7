-- A sale as it stands.
--
-- KEYS[1-8]  the sale (include/sale.lua)
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    how many: 1 to 1,000; SKUs that the sale has
--
-- {status, generation, latest event, earliest deadline or '', now, sku, ...}  each SKU as packed
--
-- flags: no-writes
-- include: now
-- include: queue
-- include: put
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local answer = { tonumber(s.status), s.generation, s.seq, next_give_back(s), now }
local fields = {}
for no = 0, tonumber(ARGV[2]) - 1 do
  table.insert(fields, 'S' .. no)
end
for _, packed in ipairs(redis.call('HMGET', s.row, unpack(fields))) do
  table.insert(answer, packed)
end
return answer
