-- Answers reservations that were made before, as `rushgate_1_sale_reserve` does, when the server's memory is full. For a
-- new reservation, the error is `OOM`.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2..]   for each request, 1 to 128 of them:
--               reservation: 16 bytes
--               buyer: name
--               cart: cart
--
-- {answer, ...}  one per request, in order:
--   {2, hold}  idempotent replay: reserved before
--   {3}        the reservation was made with another cart
--
-- flags: no-writes
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local answers = {}
for at = 2, #ARGV, 3 do
  local h = load_hold(s, ARGV[at])
  if not h then return FULL end
  local is_other = h.lines ~= ARGV[at + 2] and h.lines ~= ''
  answers[#answers + 1] = is_other and { 3 } or { 2, read(s.holds, ARGV[at]) }
end
return answers
