-- Records that a worker lives, or that it has ended.
--
-- KEYS[1-3]  the workers
-- ARGV[1]    id: name
-- ARGV[2]    name: label; the name under which it claims
-- ARGV[3]    version: label
-- ARGV[4]    concurrency: 1 to 1,000,000
-- ARGV[5]    running: 0 to 1,000,000; how many tasks of this queue
-- ARGV[6]    lease: 0 to 86,400,000,000 µs; 0 if it has ended
--
-- 0  it is to work
-- 1  it is to claim nothing
-- 2  it is to stop
--
-- flags: allow-oom
-- include: now
-- include: worker
local WORKERS_MAX = 1000
local id, name, lease = ARGV[1], ARGV[2], tonumber(ARGV[6])
local of = worker_keys(1)
local worker = read_worker(of, id)
local gone = redis.call('ZRANGEBYSCORE', of.ends, '-inf', now_text())
if lease == 0 then gone[#gone + 1] = id end
for _, other in ipairs(gone) do
  redis.call('HDEL', of.workers, other)
  redis.call('ZREM', of.ids, other)
  redis.call('ZREM', of.ends, other)
end
if lease == 0 then return worker and worker.mode or MODE_WORK end
if not worker and redis.call('HLEN', of.workers) >= WORKERS_MAX then return MODE_WORK end
worker = worker or { since = now, mode = MODE_WORK }
local till = now + lease
local packed = struct.pack(WORKER, worker.since, now, till, worker.mode, tonumber(ARGV[4]), tonumber(ARGV[5]))
redis.call('HSET', of.workers, id, packed .. string.char(#name) .. name .. ARGV[3])
redis.call('ZADD', of.ids, 0, id)
redis.call('ZADD', of.ends, int(till), id)
return worker.mode
