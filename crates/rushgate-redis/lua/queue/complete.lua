-- Ends claimed tasks that are done.
--
-- KEYS[1-18]   the queue (include/queue.lua)
-- KEYS[19-20]  the client's latest answers (include/once.lua)
-- ARGV[1]      op: 8 bytes; new for each call of this client, the same when the call is sent again
-- ARGV[2..]    for each task, 1 to 1,000 of them:
--                id: name
--                claim: 0 to 9,007,199,254,740,991; 0 if it was not claimed
--
-- {outcome, ...}  0 stale, 1 done, 2 requeued
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: once
local q, once = queue_keys(1), replay_keys(19, ARGV[1])
allow_when_full(q)
local answer = remembered(once)
if answer then return answer end
if reap(q) then return AGAIN end
answer = {}
local ids, gone, leases = {}, {}, {}
for at = 2, #ARGV, 2 do
  table.insert(ids, ARGV[at])
end
local runs = redis.call('HMGET', q.runs, unpack(ids))
local ended = {}
for at, id in ipairs(ids) do
  local claim, outcome = tonumber(ARGV[2 * at + 1]), 0
  if runs[at] and not ended[id] then
    local _, flags, of = struct.unpack(RUN, runs[at])
    if of == claim and bit.band(flags, LEASED) ~= 0 then
      ended[id] = true
      if bit.band(flags, REPLACED) ~= 0 then
        promote(q, load(q, id), true)
        outcome = 2
      else
        table.insert(gone, id)
        table.insert(leases, struct.pack('>I7', of) .. id)
        outcome = 1
      end
    end
  end
  table.insert(answer, outcome)
end
if #gone > 0 then
  redis.call('ZREM', q.leases, unpack(leases))
  redis.call('HDEL', q.records, unpack(gone))
  redis.call('HDEL', q.runs, unpack(gone))
end
finish(q)
return remember(once, answer)
