-- Enqueues tasks from an outbox, in the order given: those whose number is greater than all relayed before, up to the
-- first for which there is no room. Sent again, the call continues there. Tasks whose id is in a uniqueness window are
-- skipped.
--
-- KEYS[1-37]  the queue
-- KEYS[38]    the uniqueness windows
-- ARGV[1]     outbox: name
-- ARGV[2..]   for each task, 0 to 1,000 of them:
--               number: 1 to 2^53 - 1; increases from task to task
--               id: name
--               terms: terms
--               body: body
--
-- upto  the highest number relayed from the outbox, by this or an earlier call; 0 for none
-- include: now
-- include: put
-- include: asked
local WIDTH = 4
local q, field = queue_keys(1), 'relayed:' .. ARGV[1]
local upto = tonumber(redis.call('HGET', q.meta, field) or 0)
local before = upto
if (tonumber(ARGV[#ARGV - WIDTH + 1]) or 0) <= before then return before end
for at = 2, #ARGV, WIDTH do
  if tonumber(ARGV[at]) > before and asks_too_late(q, at + 2, at + 2, WIDTH) then return TOO_LATE end
end
touch(q)
if reap(q) then return AGAIN end
local ids = arguments(3, WIDTH)
fetch(q.records, ids)
fetch_unique(q, KEYS[38], ids)
for at = 2, #ARGV, WIDTH do
  local number = tonumber(ARGV[at])
  if number > upto then
    if put_asked(q, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]) == 4 then break end
    upto = number
  end
end
if upto > before then redis.call('HSET', q.meta, field, int(upto)) end
write_periods(q)
finish(q)
return upto
