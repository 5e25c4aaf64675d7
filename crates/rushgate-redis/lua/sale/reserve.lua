-- Reserves units for buyers, each request all or nothing.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2..]   for each request, 1 to 128 of them:
--               reservation: 16 bytes
--               buyer: name
--               cart: cart
--
-- {answer, ...}  one per request, in order: the packed hold if it is reserved by this call, otherwise a list:
--   hold                   reserved
--   {2, hold}              idempotent replay: reserved before
--   {3}                    the reservation was made with another cart
--   {4, ...} to {10, ...}  as `rushgate_1_sale_reserve_by_key` answers
-- include: now
-- include: take
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end

-- Parses a cart, with a refusal if a line has an unknown SKU. Most buyers request the same, so results are cached.
local carts = {}
local function read_cart(cart)
  local wanted = carts[cart]
  if not wanted then
    wanted = { same = string.sub(cart, 1, 4) == 'same' }
    for no, n in string.gmatch(cart, ' (-?%d+)%*(%d+)') do
      wanted[#wanted + 1] = { no = tonumber(no), n = tonumber(n) }
      if not sku(s, tonumber(no)) then wanted.refusal = wanted.refusal or { 9, #wanted - 1 } end
    end
    if #wanted == 1 and not wanted.same and not wanted.refusal then wanted.sku = sku(s, wanted[1].no) end
    carts[cart] = wanted
  end
  return wanted
end

-- The answer if no new reservation is accepted.
local function shut()
  if s.status == '2' then return { 8 } end
  if s.status == '0' or (s.opens and now < s.opens) then return { 7 } end
  if s.closes and s.closes <= now then return { 8 } end
  return retry_at(s) and { 10, retry_at(s) }
end
local is_shut = shut()

-- Prefetches what all requests need.
local WIDTH = 3
local fields = {}
for at = 2, #ARGV, WIDTH do
  local buyer, wanted = ARGV[at + 1], read_cart(ARGV[at + 2])
  if wanted.sku then
    fields[#fields + 1] = buyer .. wanted.sku.suffix
  else
    for i = 1, #wanted do
      local k = s.skus[wanted[i].no]
      if k then fields[#fields + 1] = buyer .. k.suffix end
    end
  end
end
fetch(s.holds, arguments(2, WIDTH))
fetch(s.buyers, fields)

-- Expired holds may be all that stands in a buyer's way. Once there are none, there are none for the other requests.
local function expired_now()
  local expired = s.expired or expired_holds(s, 100)
  s.expired = #expired == 0 and expired or nil
  return expired
end

local began = false
local function answer(id, buyer, cart)
  local h = load_hold(s, id)
  if h then
    if h.lines ~= cart and h.lines ~= '' then return { 3 } end
    return { 2, read(s.holds, id) }
  end
  local wanted = read_cart(cart)
  if wanted.refusal then return wanted.refusal end
  if is_shut then return is_shut end

  local same = wanted.same
  -- The reason to refuse: the purchase limit, or the first line that is short.
  local refusal = over_limit(s, wanted, buyer) or short_of(s, wanted, same)
  local expired = refusal and expired_now()
  if refusal and #expired == 0 then return refusal end
  began = true
  if refusal then
    expire(s, expired)
    refusal = over_limit(s, wanted, buyer) or short_of(s, wanted, same)
    if refusal then return refusal end
  end
  -- All fields are set at once, because a Lua table is rehashed when it grows.
  h = {
    id = id, buyer = buyer, lines = cart, deadline = now + s.hold,
    state = HELD, seq = 0, generation = 0, units = '', ranges = wanted,
  }
  take(s, wanted, same, h)
  return enter_hold(s, h)
end

-- Fast path for the usual request: units of one SKU that has only fresh ones free, for a buyer who has none of it.
-- Answers as `answer` does; nil for any other request.
local known_holds, known_buyers, deadline = s.holds.values, s.buyers.values, now + s.hold
local function answer_usual(id, buyer, cart)
  local wanted = carts[cart]
  local k, n = wanted.sku, wanted[1].n
  if is_shut or not k or known_holds[id] then return nil end
  if n > k.per_buyer or k.returned > 0 or k.ahead > 0 then return nil end
  local field, first, last = buyer .. k.suffix, k.next + 1, k.next + n
  if known_buyers[field] or last > k.total then return nil end
  began, k.changed, k.held, k.next = true, true, k.held + n, last
  set_field(s.buyers, field, n == 1 and '1' or int(n))
  return write_hold(s, id, buyer, cart, deadline, struct.pack(RANGE, k.no, first, last))
end

local answers, asked = {}, ARGV
for at = 2, #asked, WIDTH do
  local id, buyer, cart = asked[at], asked[at + 1], asked[at + 2]
  answers[#answers + 1] = answer_usual(id, buyer, cart) or answer(id, buyer, cart)
end
if began then close_sale(s) end
return answers
