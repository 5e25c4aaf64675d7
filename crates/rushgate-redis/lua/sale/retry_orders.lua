-- Makes all entries due that the ledger could not record.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
--
-- failed  how many there are
--
-- flags: allow-oom
-- include: now
-- include: failed
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local all = redis.call('ZRANGE', s.failed, 0, -1)
for _, member in ipairs(all) do
  local f = read_failed(member)
  if f.retry_at > now then store_failed(s, f.seq, now, f.attempts, string.sub(member, FAILED_ORDER_BYTES + 1)) end
end
return #all
