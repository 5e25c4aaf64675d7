-- Returns entries that the ledger could not record, by event number.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    after: 0 to 2^64 - 1; event number
-- ARGV[3]    limit: 1 to 1,000
--
-- {failed, ...}  as in the key `failed`
--
-- flags: no-writes
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
return redis.call('ZRANGEBYSCORE', s.failed, '(' .. ARGV[2], '+inf', 'LIMIT', '0', ARGV[3])
