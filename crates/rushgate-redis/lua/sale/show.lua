-- Returns the state of a sale.
--
-- KEYS[1-7]  the sale (include/sale.lua)
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    how many: 1 to 1,000; number of SKUs in the sale
--
-- {status, generation, latest event, earliest deadline or '', now, sku, ..., halted since or '', reason,
--   receipts until}
--   sku: one for each SKU, packed; receipts until: until when only receipts are honored, or ''
--
-- flags: no-writes
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local answer = { tonumber(s.status), s.generation, s.seq, next_expiry(s), now }
local fields = {}
for no = 0, tonumber(ARGV[2]) - 1 do
  table.insert(fields, 'S' .. no)
end
for _, packed in ipairs(redis.call('HMGET', s.row, unpack(fields))) do
  table.insert(answer, packed)
end
table.insert(answer, s.halted or '')
table.insert(answer, s.reason or 0)
table.insert(answer, s.receipts and now < s.receipts and s.receipts or '')
return answer
