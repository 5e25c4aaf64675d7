-- Reports to the sale what the ledger has committed, in the order given.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    generation: 1 to 4,294,967,295; of the orders. If the sale has another one, nothing is changed
-- ARGV[3..]  for each reservation, 1 to 1,000 of them:
--              reservation: 16 bytes
--              verdict: confirmed, cancelled, expired, rejected or quarantined; quarantined if others have its units
--
-- {outcome, state, ...}  for each reservation: 0 unknown, 1 settled, 2 unchanged
--
-- flags: allow-oom
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local EXPECTED = { confirmed = CONFIRMING, cancelled = CANCELLING, expired = EXPIRING }
local KIND = {
  confirmed = CONFIRMED, cancelled = CANCELLED, expired = EXPIRED, rejected = REJECTED, quarantined = QUARANTINED,
}
local answer = {}
fetch(s.holds, arguments(3, 2))
for at = 3, #ARGV, 2 do
  local h, verdict, outcome = load_hold(s, ARGV[at]), ARGV[at + 1], 0
  if h then
    outcome = 2
    local expected = EXPECTED[verdict]
    local waits = h.state == expected or (not expected and h.state <= EXPIRING)
    if waits and s.generation == tonumber(ARGV[2]) then
      end_hold(s, h, KIND[verdict])
      outcome = 1
    end
  end
  table.insert(answer, outcome)
  table.insert(answer, h and h.state or 0)
end
close_sale(s)
return answer
