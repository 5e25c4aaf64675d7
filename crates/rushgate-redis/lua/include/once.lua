-- The answers to a client's latest calls, so that a call sent again is answered again and not carried out again.
-- Two keys, in this order:
--   young  HASH  op (8 bytes) -> packed answer; at least the latest calls
--                $ -> bytes(4) and number(4) of the answers in it, the highest op ever(8), when it was said(7) that the
--                key expires
--   old    HASH  the same, of the calls before
-- When the young one is full it becomes the old one, and what was old is forgotten.
-- include: now
local KEPT_CALLS = 1024
local KEPT_BYTES = 4194304
-- A day after the latest call at least: that it expires is said once an hour.
local KEPT_MS = 25 * 3600 * 1000
local HOUR_US = 3600 * 1000000
local COUNTS = '>I4I4c8I7'

local function replay_keys(first, op)
  return { young = KEYS[first], old = KEYS[first + 1], op = op }
end

local function remembered(once)
  local kept = redis.call('HMGET', once.young, once.op, '$')
  once.bytes, once.calls, once.highest, once.said = struct.unpack(COUNTS, kept[2] or string.rep('\0', 23))
  local answer = kept[1]
  -- One that is higher than all is new.
  once.is_highest = struct.unpack('>I8', once.op) > struct.unpack('>I8', once.highest)
  if not answer and not once.is_highest then answer = redis.call('HGET', once.old, once.op) end
  return answer and cmsgpack.unpack(answer)
end

local function remember(once, answer)
  local packed = cmsgpack.pack(answer)
  if once.bytes > KEPT_BYTES or once.calls > KEPT_CALLS then
    redis.call('RENAME', once.young, once.old)
    once.bytes, once.calls, once.said = 0, 0, 0
  end
  local says = now > once.said + HOUR_US
  local counts = struct.pack(COUNTS, once.bytes + #packed, once.calls + 1,
    once.is_highest and once.op or once.highest, says and now or once.said)
  redis.call('HSET', once.young, once.op, packed, '$', counts)
  if says then redis.call('PEXPIRE', once.young, KEPT_MS) end
  return answer
end
