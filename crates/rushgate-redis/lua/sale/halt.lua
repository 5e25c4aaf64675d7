-- Halts a sale until it is rebuilt from its ledger.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    generation: 1 to 4,294,967,295; a sale with another generation is not halted
-- ARGV[3]    reason: 0 to 2; its position in `HaltReason::ALL`
--
-- 0  the sale is not halted
-- 1  it is halted
-- 2  it has no ledger
--
-- flags: allow-oom
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if not s.ledger then return 2 end
if not s.halted and s.generation == tonumber(ARGV[2]) then
  halt(s, ARGV[3])
  close_sale(s)
end
return s.halted and 1 or 0
