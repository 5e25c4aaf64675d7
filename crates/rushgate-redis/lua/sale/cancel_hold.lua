-- Cancels holds at the request of their buyers. A hold whose deadline has passed expires instead.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2..]   for each hold, 1 to 128 of them:
--               reservation: 16 bytes
--
-- {answer, ...}  one per hold, in order, as `rushgate_1_sale_confirm` answers
--
-- flags: allow-oom
-- include: now
-- include: decide
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
return decide_each(s, arguments(2, 1), 'cancel')
