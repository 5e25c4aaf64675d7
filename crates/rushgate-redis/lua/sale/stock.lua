-- Adds units, numbered on from the last, or withdraws free ones for good.
--
-- KEYS[1-8]    the sale (include/sale.lua)
-- KEYS[9-10]   the client's latest answers (include/once.lua)
-- KEYS[11-28]  the orders' queue (include/queue.lua), if the sale has one
-- ARGV[1]      secret: 16 bytes
-- ARGV[2]      op: 8 bytes; new for each call of this client, the same when the call is sent again
-- ARGV[3]      sku: 0 to 999; its number in the sale
-- ARGV[4]      add: 0 to 10,000,000; 0 to withdraw
-- ARGV[5]      withdraw: 0 to 10,000,000; 0 to add
-- ARGV[6]      most: 1 to 10,000,000; that a SKU may have
-- ARGV[7]      told: 1 to 100,000; the most that may be withdrawn in all if the ledger must be told them one by one
-- ARGV[8]      order: name; the id of the order's task
--
-- {1, sku}    changed: the SKU as packed
-- {2, free}   fewer are free
-- {3, total}  more than a SKU may have
-- {4, n}      more withdrawn than the ledger can be told
-- {5}         the sale is stopped
-- include: now
-- include: queue
-- include: put
-- include: once
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local once = replay_keys(9, ARGV[2])
local answer = remembered(once)
if answer then return answer end
if s.paused then return { 5 } end
local k, add, n = sku(s, tonumber(ARGV[3])), tonumber(ARGV[4]), tonumber(ARGV[5])
if k.total + add > tonumber(ARGV[6]) then return { 3, k.total + add } end
if s.ledger and n > 0 and k.withdrawn + n > tonumber(ARGV[7]) then return { 4, k.withdrawn + n } end
refuse_when_full(s)
if free_of(k) < n then return remember(once, { 2, free_of(k) }) end
local q = s.ledger and queue_keys(11)
if q and reap(q) then return AGAIN end
k.changed = true
if add > 0 then
  local first, last = k.total + 1, k.total + add
  k.total = last
  append(s, STOCK_ADDED, nil, struct.pack(UNIT, k.no, first) .. struct.pack(UNIT, k.no, last))
else
  local units, codes = {}, {}
  for _, unit in ipairs(take_lowest(s, k, n)) do
    local code = int(k.no * SHELF + unit)
    table.insert(codes, code)
    table.insert(codes, code)
    table.insert(units, struct.pack(UNIT, k.no, unit))
  end
  in_chunks('ZADD', s.withdrawn, codes)
  k.withdrawn = k.withdrawn + n
  append(s, STOCK_WITHDRAWN, nil, table.concat(units))
end
close_sale(s)
if q then
  local withdrawn = {}
  for _, code in ipairs(redis.call('ZRANGEBYSCORE', s.withdrawn, int(k.no * SHELF), int(k.no * SHELF + SHELF - 1))) do
    table.insert(withdrawn, int(tonumber(code) - k.no * SHELF))
  end
  local json = '{"order":"stock","sale":' .. s.json .. ',"sku":' .. k.json .. ',"total":' .. int(k.total)
    .. ',"withdrawn":[' .. table.concat(withdrawn, ',') .. '],"per_buyer":' .. k.per_buyer .. '}'
  put(q, {
    id = ARGV[8], due = now, priority = 5, mode = REPLACE, max_wait = 0, max = 1000, body = '\255' .. json,
  }, false)
  finish(q)
end
return remember(once, { 1, pack_sku(k) })
