-- Loads orders of the ledger into a staged sale. An order that was loaded before changes nothing.
--
-- KEYS[1-8]   the sale
-- KEYS[9-16]  the staged sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes
-- ARGV[3]     generation: 1 to 4,294,967,295; the new generation
-- ARGV[4..]   for each order, 0 to 1,000 of them:
--               reservation: 16 bytes
--               buyer: name
--               state: held, confirmed, cancelled or expired
--               units: 0 to 320,000 bytes; sku(2) first(4) last(4) for each range that the order has now
--
-- 1  loaded
-- 0  another rebuild has begun since
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if not s.halted or s.by ~= ARGV[2] then return 0 end
local loaded = sale_keys(9, ARGV[1])
-- This rebuild has switched, and the sale was halted again since.
if not loaded then return 0 end
loaded.generation = tonumber(ARGV[3])
redis.call('HSET', loaded.row, 'generation', ARGV[3])
local LAST = { confirmed = CONFIRMED, cancelled = CANCELLED, expired = EXPIRED }
for at = 4, #ARGV, 4 do
  local h = { id = ARGV[at], buyer = ARGV[at + 1], units = ARGV[at + 3], lines = '', deadline = now + loaded.hold }
  if not read(loaded.holds, h.id) then
    local ranges = ranges_of(h)
    for range = 1, #ranges, 3 do
      local k = sku(loaded, ranges[range])
      k.ahead = k.ahead + ranges[range + 2] - ranges[range + 1] + 1
    end
    enter_hold(loaded, h)
    local last = LAST[ARGV[at + 2]]
    if last then end_hold(loaded, h, last) end
  end
end
close_sale(loaded)
return 1
