-- Loads units that nobody has beside a sale that is being rebuilt. One that was loaded before changes nothing.
--
-- KEYS[1-8]   the sale (include/sale.lua)
-- KEYS[9-16]  the loaded sale (include/sale.lua)
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes
-- ARGV[3]     generation: 1 to 4,294,967,295; the new one
-- ARGV[4]     sku: 0 to 999; its number in the sale
-- ARGV[5]     place: free or withdrawn
-- ARGV[6..]   for each unit, 1 to 10,000 of them:
--               number: 1 to 10,000,000
--
-- 1  loaded
-- 0  somebody else has begun to rebuild the sale since
-- include: now
-- include: queue
-- include: put
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if not s.paused or s.by ~= ARGV[2] then return 0 end
local loaded = sale_keys(9, ARGV[1])
loaded.generation = tonumber(ARGV[3])
redis.call('HSET', loaded.row, 'g', ARGV[3])
local k, withdrawn, new = sku(loaded, tonumber(ARGV[4])), ARGV[5] == 'withdrawn', {}
local place = withdrawn and loaded.withdrawn or loaded.returned
for at = 6, #ARGV do
  local unit = tonumber(ARGV[at])
  local code = int(k.no * SHELF + unit)
  if redis.call('ZADD', place, 'NX', code, code) == 1 then
    table.insert(new, struct.pack(UNIT, k.no, unit))
  end
end
k.changed, k.next = true, k.next + #new
if not withdrawn then
  k.returned = k.returned + #new
elseif #new > 0 then
  k.withdrawn = k.withdrawn + #new
  append(loaded, STOCK_WITHDRAWN, nil, table.concat(new))
end
close_sale(loaded)
return 1
