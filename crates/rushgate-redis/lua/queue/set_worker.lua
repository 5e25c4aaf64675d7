-- Asks a worker to work, to claim nothing or to stop. It learns of it when it announces itself.
--
-- KEYS[1-3]  the workers
-- ARGV[1]    id: name
-- ARGV[2]    mode: 0 or 1 or 2; work, quiet, stop
--
-- 1  the worker is listed
-- 0  not found
--
-- flags: allow-oom
-- include: now
-- include: worker
local of = worker_keys(1)
local worker = read_worker(of, ARGV[1])
if not worker then return 0 end
local packed = struct.pack(WORKER_TERMS, worker.since, worker.seen, worker.till, tonumber(ARGV[2])) .. worker.rest
redis.call('HSET', of.workers, ARGV[1], packed)
return 1
