-- Returns the state of a sale.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    how many: 1 to 1,000; number of SKUs in the sale
--
-- {status, generation, latest event, earliest deadline or '', now, sku, ..., halted since or '', reason,
--   receipts until, through, behind since, failed, worker until}
--   sku: one for each SKU, packed; receipts until: until when only receipts are honored, or ''; through: number of the
--   latest event that was delivered to the ledger; behind since: time of the event after it, or ''; failed: how many
--   entries failed; worker until: end of the lease of the worker that follows the sale, or ''
--
-- flags: no-writes
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local answer = { tonumber(s.status), s.generation, s.seq, next_expiry(s), now }
local fields = {}
for no = 0, tonumber(ARGV[2]) - 1 do
  table.insert(fields, 'sku:' .. no)
end
for _, packed in ipairs(redis.call('HMGET', s.row, unpack(fields))) do
  table.insert(answer, packed)
end
table.insert(answer, s.halted or '')
table.insert(answer, s.reason or 0)
table.insert(answer, s.receipts and now < s.receipts and s.receipts or '')
local delivery = redis.call('HMGET', s.row, 'through', 'worker', 'worker_until')
local through = tonumber(delivery[1]) or 0
local behind = s.ledger and redis.call('LINDEX', s.events, through)
table.insert(answer, through)
table.insert(answer, behind and struct.unpack('>I7', behind) or '')
table.insert(answer, redis.call('ZCARD', s.failed))
table.insert(answer, delivery[2] and delivery[3] or '')
return answer
