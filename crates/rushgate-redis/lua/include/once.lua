-- Idempotent replay: the answers to a client's recent calls. A retried call gets the same answer and changes nothing.
-- Two keys, in this order:
--   young  HASH  op (8 bytes) -> packed answer, of at least the latest calls
--                $ -> bytes(4) and number(4) of its answers, highest op ever(8), when its expiry was last set(7)
--   old    HASH  op (8 bytes) -> packed answer, of the calls before
-- When `young` is full it replaces `old`.
-- include: now
local KEPT_CALLS = 1024
local KEPT_BYTES = 4194304
-- At least a day after the latest call. The expiry is set at most once an hour.
local KEPT_MS = 25 * 3600 * 1000
local HOUR_US = 3600 * 1000000
local COUNTS = '>I4I4c8I7'

-- A call is one or more requests. If `width` is given, the arguments are items of that width, each with an op in front:
-- a new op starts a request, and '' continues the request of the item before.
local function replay_keys(first, op, width)
  if op == '' then error({ err = 'INVALID the first op is empty; it must be 8 bytes' }) end
  local once = { young = KEYS[first], old = KEYS[first + 1], ops = { op }, firsts = { 1 }, answered = {}, known = 0 }
  local seen = { [op] = true }
  for at = 1 + (width or #ARGV), #ARGV, width or 1 do
    if ARGV[at] ~= '' then
      if seen[ARGV[at]] then error({ err = 'INVALID two requests have the same op; each must have its own' }) end
      seen[ARGV[at]] = true
      once.ops[#once.ops + 1], once.firsts[#once.firsts + 1] = ARGV[at], at
    end
  end
  return once
end

-- The stored answers by position of the request. A new request has none.
local function remembered_all(once)
  local kept, ops = redis.call('HMGET', once.young, '$', unpack(once.ops)), once.ops
  once.bytes, once.calls, once.highest, once.said = struct.unpack(COUNTS, kept[1] or string.rep('\0', 23))
  local highest = struct.unpack('>I8', once.highest)
  for at = 1, #ops do
    local answer, op = kept[at + 1], struct.unpack('>I8', ops[at])
    if op > highest then
      -- An op that is higher than all before is new, so `old` need not be read.
      highest, once.highest = op, ops[at]
    elseif not answer then
      answer = redis.call('HGET', once.old, ops[at])
    end
    if answer then once.answered[at], once.known = cmsgpack.unpack(answer), once.known + 1 end
  end
  return once.answered
end

-- Stores the answers to the new requests.
local function remember_all(once, answers)
  local bytes, calls, news = once.bytes, once.calls, {}
  for at = 1, #answers do
    if not once.answered[at] then
      local packed = cmsgpack.pack(answers[at])
      news[#news + 1], news[#news + 2] = once.ops[at], packed
      bytes, calls = bytes + #packed, calls + 1
    end
  end
  if not news[1] then return answers end
  if once.bytes > KEPT_BYTES or once.calls > KEPT_CALLS then
    redis.call('RENAME', once.young, once.old)
    bytes, calls, once.said = bytes - once.bytes, calls - once.calls, 0
  end
  local says = now > once.said + HOUR_US
  local counts = struct.pack(COUNTS, bytes, calls, once.highest, says and now or once.said)
  redis.call('HSET', once.young, '$', counts, unpack(news))
  if says then redis.call('PEXPIRE', once.young, KEPT_MS) end
  return answers
end

-- Answers each request: known ones with the stored answer, new ones item by item.
local function answer_each(once, width, answer_item)
  local answers = {}
  for request = 1, #once.ops do
    local answer = once.answered[request]
    if not answer then
      answer = {}
      for at = once.firsts[request], (once.firsts[request + 1] or #ARGV + 1) - width, width do
        answer_item(answer, at)
      end
    end
    answers[request] = answer
  end
  return answers
end

-- The same for a call that is one request.
local function remembered(once)
  return remembered_all(once)[1]
end

local function remember(once, answer)
  once.answered = {}
  return remember_all(once, { answer })[1]
end
