-- Confirms holds that are paid for. A hold whose deadline has passed expires instead.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2..]   for each hold, 1 to 128 of them:
--               reservation: 16 bytes
--
-- {answer, ...}  one per hold, in order:
--   {0}        no such reservation
--   {1, hold}  done, by this or an earlier call
--   {2, hold}  decided; the ledger has not committed yet
--   {3, hold}  decided otherwise before
--   {4}        the sale is halted
--
-- flags: allow-oom
-- include: now
-- include: decide
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
return decide_each(s, arguments(2, 1), 'confirm')
