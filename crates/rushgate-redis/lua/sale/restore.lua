-- Restores a reservation from a receipt, if the store has lost it: with the same units if they are free, otherwise with
-- others. The caller must have verified the signature of the receipt.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     reservation: 16 bytes
-- ARGV[3]     buyer: name
-- ARGV[4]     generation: 1 to 4,294,967,295; of the receipt
-- ARGV[5]     deadline: 0 to 2^64 - 1; of the receipt, moment in µs
-- ARGV[6]     same: 0 or 1; 1 if other units must have one number in every line
-- ARGV[7]     units: 10 to 320,000 bytes; sku(2) first(4) last(4) for each range, line by line
--
-- {1, hold}                     restored
-- {2, hold}                     not lost; the hold as it is now
-- {4, sku, free}                too few units are free; the first line that is short
-- {5, sku, free, release at}    the same, and some are on hold; the earliest deadline, or ''
-- {6, sku, limit, has}          purchase limit exceeded
-- {10, retry at}                the sale is halted
-- {11}                          the hold would have expired
-- include: now
-- include: take
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
local packed = read(s.holds, ARGV[2])
if packed then return { 2, packed } end
local generation, deadline = tonumber(ARGV[4]), tonumber(ARGV[5])
if s.ledger and generation >= s.generation and not s.halted then
  -- A reservation of this generation is missing, so the store has lost a write.
  halt(s, LOST_WRITES)
  close_sale(s)
end
if s.halted then return { 10, retry_at(s) } end
if s.stopped and generation < s.generation and deadline > s.stopped then
  -- A hold that was active when the sale was halted gets a whole hold time from the switch on.
  deadline = s.switched + s.hold
end
if deadline <= now then return { 11 } end
local h, wanted = { id = ARGV[2], buyer = ARGV[3], units = ARGV[7], lines = '', deadline = deadline }, {}
local ranges = ranges_of(h)
for at = 1, #ranges, 3 do
  local no, line = ranges[at], wanted[#wanted]
  if not line or line.no ~= no then
    line = { no = no, n = 0 }
    table.insert(wanted, line)
  end
  line.n = line.n + ranges[at + 2] - ranges[at + 1] + 1
  sku(s, no)
end
local same, refusal = ARGV[6] == '1', over_limit(s, wanted, h.buyer)
if refusal then return refusal end
local all_free = true
for at = 1, #ranges, 3 do
  for unit = ranges[at + 1], ranges[at + 2] do
    all_free = all_free and is_free(s, s.skus[ranges[at]], unit)
  end
end
refusal = not all_free and short_of(s, wanted, same)
if refusal then return refusal end
if all_free then
  for at = 1, #ranges, 3 do
    for unit = ranges[at + 1], ranges[at + 2] do
      take_number(s, s.skus[ranges[at]], unit)
    end
  end
else
  take(s, wanted, same, h)
end
enter_hold(s, h)
close_sale(s)
return { 1, pack_hold(h) }
