-- The answers to a client's latest calls, so that a call sent again is answered again and not carried out again.
-- Two keys, in this order:
--   young  HASH  op (8 bytes) -> packed answer, # -> bytes in it; at least the latest calls
--   old    HASH  the same, of the calls before
-- When the young one is full it becomes the old one, and what was old is forgotten.
local KEPT_CALLS = 1024
local KEPT_BYTES = 4194304
local KEPT_MS = 24 * 3600 * 1000

local function replay_keys(first, op)
  return { young = KEYS[first], old = KEYS[first + 1], op = op }
end

local function remembered(once)
  local kept = redis.call('HMGET', once.young, once.op, '#')
  once.bytes = tonumber(kept[2]) or 0
  local answer = kept[1] or redis.call('HGET', once.old, once.op)
  return answer and cmsgpack.unpack(answer)
end

local function remember(once, answer)
  local packed = cmsgpack.pack(answer)
  if once.bytes > KEPT_BYTES or redis.call('HLEN', once.young) > KEPT_CALLS then
    redis.call('RENAME', once.young, once.old)
    once.bytes = 0
  end
  once.bytes = once.bytes + #packed
  redis.call('HSET', once.young, once.op, packed, '#', once.bytes)
  redis.call('PEXPIRE', once.young, KEPT_MS)
  return answer
end
