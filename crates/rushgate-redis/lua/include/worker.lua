-- The workers of a queue. Their three keys, in this order:
--   workers      HASH  id -> since(7) seen(7) lease until(7) mode(1) concurrency(3) running(3) name's length(1) name
--                      version. Mode: 0 work, 1 quiet, 2 stop
--   worker_ids   ZSET  id -> 0
--   worker_ends  ZSET  id -> lease until
--
-- A worker announces itself every 10 s with a lease of 30 s. After its lease it is listed no more.
local WORKER, WORKER_TERMS = '>I7I7I7I1I3I3', '>I7I7I7I1'
-- codes: WorkerMode as MODE_

local function worker_keys(first)
  return { workers = KEYS[first], ids = KEYS[first + 1], ends = KEYS[first + 2] }
end

local function read_worker(of, id)
  local packed = redis.call('HGET', of.workers, id)
  if not packed then return nil end
  local since, seen, till, mode, rest_from = struct.unpack(WORKER_TERMS, packed)
  if till <= now then return nil end
  return { since = since, seen = seen, till = till, mode = mode, rest = string.sub(packed, rest_from), packed = packed }
end
