-- Entries of the sale's log that the ledger could not record.
-- include: sale
local FAILED_ORDER, FAILED_ORDER_BYTES = '>I7I7I4', 18

local function read_failed(member)
  local retry_at, seq, attempts = struct.unpack(FAILED_ORDER, member)
  return { retry_at = retry_at, seq = seq, attempts = attempts }
end

local function store_failed(s, seq, retry_at, attempts, reason)
  redis.call('ZREMRANGEBYSCORE', s.failed, seq, seq)
  redis.call('ZADD', s.failed, int(seq), struct.pack(FAILED_ORDER, retry_at, seq, attempts) .. reason)
end
