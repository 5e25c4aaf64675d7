-- Taking units for a cart: `wanted` is its lines, each the number of a SKU and a quantity.

-- include: sale
local function lowest_free(s, k, from)
  local fresh = fresh_from(s, k, from)
  if k.returned == 0 then return fresh end
  local low, high = scores(k, from, SHELF - 1)
  local again = redis.call('ZRANGEBYSCORE', s.returned, low, high, 'LIMIT', '0', '1')[1]
  again = again and tonumber(again) - k.no * SHELF
  return again and fresh and math.min(again, fresh) or again or fresh
end

local function is_free(s, k, unit)
  if unit > k.next then return fresh_from(s, k, unit) == unit end
  return redis.call('ZSCORE', s.returned, k.no * SHELF + unit)
end

-- The lowest number that is free in every line. Each line is asked for its lowest free number from the candidate on,
-- and the highest answer is the next candidate, until all agree.
local function common(s, wanted)
  local candidate = 1
  while true do
    local highest = candidate
    for _, line in ipairs(wanted) do
      local free = lowest_free(s, s.skus[line.no], candidate)
      if not free then return nil end
      highest = math.max(highest, free)
    end
    if highest == candidate then return candidate end
    candidate = highest
  end
end

-- The refusal for the first line that exceeds the buyer's limit: {6, sku, limit, has}.
local function over_limit(s, wanted, buyer)
  for i = 1, #wanted do
    local line = wanted[i]
    local k = s.skus[line.no]
    local mine = units_of(s, buyer, k)
    if mine + line.n > k.per_buyer then return { 6, line.no, k.per_buyer, mine } end
  end
end

-- The refusal for the first line that is short: {4, sku, free}, or {5, sku, free, release at} if units of it are on
-- hold.
local function short_of(s, wanted, same)
  local short
  for i = 1, #wanted do
    local line = wanted[i]
    local k = s.skus[line.no]
    if not short and k.total - k.next - k.ahead + k.returned < line.n then short = line.no end
  end
  if not short and same and not common(s, wanted) then short = wanted[1].no end
  if not short then return nil end
  local k = s.skus[short]
  if k.held == 0 then return { 4, short, free_of(k) } end
  write_back(s.deadlines)
  return { 5, short, free_of(k), next_expiry(s) }
end

-- Takes one free number, as a range. Fresh numbers below it become returned ones.
local function take_number(s, k, number)
  k.changed = true
  if number <= k.next then
    redis.call('ZREM', s.returned, k.no * SHELF + number)
    k.returned = k.returned - 1
    return { number, number }
  end
  local first, last = fresh_from(s, k, 1)
  while first < number do
    last = math.min(last, number - 1)
    shelve(s, k, first, last)
    pass(k, first, last)
    first, last = fresh_from(s, k, 1)
  end
  pass(k, number, number)
  return { number, number }
end

-- Takes units for every line of a hold. The caller has checked that there are enough.
local function take(s, wanted, same, h)
  local number, ranges, n = same and common(s, wanted), {}, 0
  h.units, h.ranges = '', ranges
  for i = 1, #wanted do
    local line = wanted[i]
    local k = s.skus[line.no]
    local taken = number and take_number(s, k, number) or take_lowest(s, k, line.n)
    for at = 1, #taken, 2 do
      ranges[n + 1], ranges[n + 2], ranges[n + 3], n = k.no, taken[at], taken[at + 1], n + 3
    end
    h.units = h.units .. pack_ranges(k.no, taken)
  end
end
