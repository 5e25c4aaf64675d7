-- Reserves units under the buyer's idempotency key: `rushgate_1_sale_reserve` for programs that cannot derive the
-- reservation id.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     key: name; the buyer's idempotency key: reuse it to retry
-- ARGV[3]     buyer: name
-- ARGV[4]     same: 0 or 1; 1 for the same number in every line
-- ARGV[5..]   for each line, 1 to 32 of them:
--               sku: -1 to 999, each once; the SKU's number in the sale, -1 if the sale does not have it
--               quantity: 1 to 1,000
--
-- {1, hold, reservation}        reserved; the 16 bytes of the reservation are needed to confirm and cancel it
-- {2, hold, reservation}        idempotent replay: reserved before under this key
-- {3}                           the key was used with another cart
-- {4, sku, free}                sold out
-- {5, sku, free, release at}    all on hold; the earliest deadline, or ''
-- {6, sku, limit, has}          purchase limit exceeded
-- {7}                           not open
-- {8}                           ended
-- {9, line}                     no such SKU; lines count from 0
-- {10, retry at}                retry later: the sale is halted, or honors only receipts at the moment
-- include: siphash
local sale = string.match(KEYS[1], '^rg:{s:(.*)}:row$')
local id = siphash(ARGV[1], sale .. '\0' .. ARGV[3] .. '\0' .. ARGV[2] .. '\0')
local cart = { tonumber(ARGV[4]) == 1 and 'same' or 'any' }
for at = 5, #ARGV, 2 do
  table.insert(cart, tonumber(ARGV[at]) .. '*' .. tonumber(ARGV[at + 1]))
end
ARGV = { ARGV[1], id, ARGV[3], table.concat(cart, ' ') }
local answers = verbs.sale_reserve()
if answers.ok then return answers end
local answer = answers[1]
if type(answer) == 'string' then return { 1, answer, id } end
if answer[1] == 2 then answer[3] = id end
return answer
