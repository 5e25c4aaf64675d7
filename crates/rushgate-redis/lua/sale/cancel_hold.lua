-- Cancels a hold: the buyer does not want it. One whose deadline has passed is ended instead.
--
-- KEYS[1-8]   the sale (include/sale.lua)
-- KEYS[9-26]  the orders' queue (include/queue.lua), if the sale has one
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     reservation: 16 bytes
--
-- {0}        no such reservation
-- {1, hold}  done, now or before
-- {2, hold}  decided; the ledger has still to commit
-- {3, hold}  decided otherwise before
-- {4}        the sale is stopped
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: put
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local h = load_hold(s, ARGV[2])
if s.paused and (not h or h.state == HELD) then return { 4 } end
if not h then return { 0 } end
if h.state == HELD then
  allow_when_full_sale(s)
  local q = s.ledger and queue_keys(9)
  if q and reap(q) then return AGAIN end
  decide(s, q, h, h.deadline <= now and 'expire' or 'cancel')
  close_sale(s)
  if q then finish(q) end
end
return { h.state == CANCELLED_ and 1 or h.state == CANCELLING and 2 or 3, pack_hold(h) }
