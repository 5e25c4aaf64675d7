-- Adds units, numbered from the last one on, or withdraws the highest free ones permanently.
--
-- KEYS[1-8]    the sale
-- KEYS[9-10]   the replay cache
-- ARGV[1]      secret: 16 bytes
-- ARGV[2]      op: 8 bytes
-- ARGV[3]      sku: 0 to 999; the SKU's number in the sale
-- ARGV[4]      add: 0 to 10,000,000; 0 to withdraw
-- ARGV[5]      withdraw: 0 to 10,000,000; 0 to add
-- ARGV[6]      most: 1 to 10,000,000; the most units that a SKU may have
-- ARGV[7]      at once: 1 to 10,000,000; the most returned units that one call may withdraw
--
-- {1, sku}    changed; the SKU, packed
-- {2, free}   fewer units are free
-- {3, most}   the change is too large; the most units it may have
-- {4}         the sale is halted
-- {5}         the op was used for another change
-- include: now
-- include: once
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local once = replay_keys(9, ARGV[2], op_of.other)
local no, more, n = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local asked = no .. ' ' .. int(more) .. ' ' .. int(n)
local kept = remembered(once)
if kept then return kept[1] == asked and kept[2] or { 5 } end

-- Stores the request with the answer, so that another change with the same op is noticed.
local function keep(answer)
  return remember(once, { asked, answer })[2]
end

if s.halted then return keep({ 4 }) end
local k = sku(s, no)
if free_of(k) < n then return keep({ 2, free_of(k) }) end
local most = more > 0 and tonumber(ARGV[6]) - k.total or fresh_of(k) + tonumber(ARGV[7])
if more + n > most then return keep({ 3, most }) end

-- The highest fresh numbers as ranges, the highest range first.
local function highest_fresh(left)
  local ranges, top = {}, k.total
  while left > 0 and top > k.next do
    local high, low = int(k.no * SHELF + top), int(k.no * SHELF + k.next + 1)
    local range = redis.call('ZREVRANGEBYSCORE', s.withdrawn, high, low, 'LIMIT', '0', '1')[1]
    local first, last = k.next + 1, k.next
    if range then
      local _
      _, first, last = struct.unpack(RANGE, range)
    end
    if last < top then
      local from = math.max(last + 1, top - left + 1)
      table.insert(ranges, { from, top })
      left = left - (top - from + 1)
    end
    top = first - 1
  end
  return ranges
end

-- Withdraws the highest free numbers: fresh ones, then returned ones. Returns them.
local function withdraw_highest()
  local fresh = math.min(fresh_of(k), n)
  local above = highest_fresh(fresh)
  local taken = take_returned(s, k, n - fresh, false)
  withdraw(s, k.no, taken)
  for at = #above, 1, -1 do
    add_range(taken, above[at][1], above[at][2])
  end
  if fresh > 0 then
    -- All numbers from the lowest of them on are withdrawn now, so one range replaces them.
    local lowest = above[#above][1]
    redis.call('ZREMRANGEBYSCORE', s.withdrawn, scores(k, lowest, SHELF - 1))
    withdraw(s, k.no, { lowest, k.total })
    k.ahead = k.ahead + fresh
  end
  k.withdrawn = k.withdrawn + n
  return taken
end

k.changed = true
if more > 0 then
  local first = k.total + 1
  k.total = k.total + more
  append(s, STOCK_ADDED, nil, pack_ranges(k.no, { first, k.total }))
else
  append(s, STOCK_WITHDRAWN, nil, pack_ranges(k.no, withdraw_highest()))
end
close_sale(s)
return keep({ 1, pack_sku(k) })
