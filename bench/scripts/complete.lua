-- Completes tasks that `claim.lua` claimed. Lines that end with `kept` are as there.
-- KEYS: waiting, records, leases, runs, settings, answers. ARGV: the ID and the claim number of each task; op.
local op, known = ARGV[#ARGV], redis.call('HMGET', KEYS[6], ARGV[#ARGV], 'totals') -- kept
if known[1] then return cmsgpack.unpack(known[1]) end -- kept
local meta = redis.call('HMGET', KEYS[5], 'counters', 'paused', 'limits') -- kept
if meta[3] then return {} end -- kept
local ids, leases, answers = {}, {}, {}
for n = 1, math.floor(#ARGV / 2) do ids[n] = ARGV[2 * n - 1] end
for n, run in ipairs(redis.call('HMGET', KEYS[4], unpack(ids))) do
  if run then
    local number, turn, attempts, flags = struct.unpack('>I7I1I2I1', run)
    if flags ~= 1 then return {} end -- kept
    if number + turn == tonumber(ARGV[2 * n]) and flags % 2 == 1 then
      answers[n], leases[n] = 1, string.sub(run, 1, 8) .. ids[n]
    end
  end
end
redis.call('HDEL', KEYS[4], unpack(ids))
redis.call('HDEL', KEYS[2], unpack(ids))
redis.call('ZREM', KEYS[3], unpack(leases))
local packed = cmsgpack.pack({ answers }) -- kept
redis.call('HSET', KEYS[6], op, packed, 'totals', (known[2] or 0) + #packed) -- kept
return { answers }
