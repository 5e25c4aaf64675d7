-- Claims tasks with Rushgate's records and runs. Lines that end with `kept` are for a pause, tasks with a key and answers to
-- repeated calls; `bench/costs` also measures the script without them.
-- KEYS: waiting, records, leases, runs, settings, answers. ARGV: how many, worker, op.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local latest = now
local op, known = ARGV[3], redis.call('HMGET', KEYS[6], ARGV[3], 'totals') -- kept
if known[1] then return cmsgpack.unpack(known[1]) end -- kept
local meta = redis.call('HMGET', KEYS[5], 'counters', 'paused', 'limits') -- kept
if meta[2] or meta[3] then return {} end -- kept
if meta[1] then latest = math.max(struct.unpack('>I7', meta[1]), now) end -- kept
local function text(number)
  return string.format('%d%09d', (number - number % 1000000000) / 1000000000, number % 1000000000)
end
local entries = redis.call('LRANGE', KEYS[1], '0', ARGV[1] - 1)
if redis.call('ZCOUNT', KEYS[3], '-inf', text(now)) > 0 or not entries[1] then return {} end
local ids, leases, answer, runs, till = {}, {}, { 0, 0 }, {}, now + 30000000
for n, entry in ipairs(entries) do ids[n] = string.sub(entry, 8) end
redis.call('LTRIM', KEYS[1], #ids, '-1')
local score, before, behind = text(till), struct.pack('>I1I2I1I7', 0, 1, 1, till), string.char(#ARGV[2]) .. ARGV[2]
local records = redis.call('HMGET', KEYS[2], unpack(ids))
for n, id in ipairs(ids) do
  local number, record = struct.pack('>I7', latest + n), records[n]
  if string.byte(record, 21) % 32 >= 16 then return {} end -- kept
  local run = number .. before .. string.sub(record, 14, 20) .. behind
  runs[2 * n - 1], runs[2 * n], leases[2 * n - 1], leases[2 * n] = id, run, score, number .. '\0' .. id
  answer[3 * n], answer[3 * n + 1], answer[3 * n + 2] = id, record, run
end
redis.call('HSET', KEYS[4], unpack(runs))
redis.call('ZADD', KEYS[3], unpack(leases))
local packed = cmsgpack.pack({ answer }) -- kept
redis.call('HSET', KEYS[6], op, packed, 'totals', (known[2] or 0) + #packed) -- kept
redis.call('HSET', KEYS[5], 'counters', struct.pack('>I7', latest + #ids)) -- kept
return { answer }
