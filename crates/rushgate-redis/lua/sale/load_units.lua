-- Loads units that no order has into a staged sale. Units that were loaded before change nothing.
--
-- KEYS[1-8]   the sale
-- KEYS[9-16]  the staged sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes
-- ARGV[3]     generation: 1 to 4,294,967,295; the new generation
-- ARGV[4]     sku: 0 to 999; the SKU's number in the sale
-- ARGV[5]     place: free or withdrawn
-- ARGV[6..]   for each range, 1 to 10,000 of them:
--               first: 1 to 10,000,000
--               last: 1 to 10,000,000
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
local k, withdrawn, new = sku(loaded, tonumber(ARGV[4])), ARGV[5] == 'withdrawn', {}
for at = 6, #ARGV, 2 do
  local first, last = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local code, n = int(k.no * SHELF + last), last - first + 1
  if not withdrawn then
    for unit = first, last do
      local of_unit = int(k.no * SHELF + unit)
      local added = redis.call('ZADD', loaded.returned, 'NX', of_unit, of_unit)
      k.returned, k.ahead = k.returned + added, k.ahead + added
    end
  elseif redis.call('ZADD', loaded.withdrawn, 'NX', code, struct.pack(RANGE, k.no, first, last)) == 1 then
    k.withdrawn, k.ahead = k.withdrawn + n, k.ahead + n
    table.insert(new, struct.pack(RANGE, k.no, first, last))
  end
end
k.changed = true
if #new > 0 then
  append(loaded, STOCK_WITHDRAWN, nil, table.concat(new))
end
close_sale(loaded)
return 1
