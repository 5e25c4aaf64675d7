-- Idempotent replay: the answers to a client's recent calls. A retried call gets the same answer and changes nothing.
-- Two keys, in this order:
--   young  HASH  op (8 bytes) -> packed answer, of at least the latest calls
--   old    HASH  op (8 bytes) -> packed answer, of the calls before
-- When `young` is full it replaces `old`.
--
-- internals:
--   young  totals -> bytes(4) and number(4) of its answers, when its expiry was last set(7), and the highest op
--            ever(8) of each kind of call: enqueue, claim, complete, finish, retry, release, others
-- include: now
local KEPT_CALLS = 1024
local KEPT_BYTES = 4194304
-- At least a day after the latest call. The expiry is set at most once an hour.
local KEPT_MS = 25 * 3600 * 1000
local HOUR_US = 3600 * 1000000
local OPS_FROM, OP_BYTES = 16, 8
local op_of = { enqueue = 1, claim = 2, complete = 3, finish = 4, retry = 5, release = 6, other = 7 }
-- The totals are longer than 64 bytes, so that Redis keeps the hash as a table from the start. It would scan a listpack
-- for each op.
local TOTALS_BYTES = 71
local COUNTS = '>I4I4I7'

-- A call is one or more requests of a kind (`op_of`). If `width` is given, the arguments are items of that width, each
-- with an op in front: a new op starts a request, and '' continues the request of the item before.
local function replay_keys(first, op, kind, width)
  if op == '' then error({ err = 'INVALID the first op is empty; it must be 8 bytes' }) end
  local once = {
    young = KEYS[first], old = KEYS[first + 1], ops = { op }, firsts = { 1 }, answered = {}, known = 0,
    from = OPS_FROM + OP_BYTES * (kind - 1),
  }
  local seen, n = { [op] = true }, 1
  for at = 1 + (width or #ARGV), #ARGV, width or 1 do
    op = ARGV[at]
    if op ~= '' then
      if seen[op] then error({ err = 'INVALID two requests have the same op; each must have its own' }) end
      seen[op], n = true, n + 1
      once.ops[n], once.firsts[n] = op, at
    end
  end
  return once
end

-- The stored answers by position of the request. A new request has none. An op that is higher than all before of its
-- kind is new, so it is not looked up.
local function remembered_all(once)
  local totals, ops = redis.call('HGET', once.young, 'totals') or string.rep('\0', TOTALS_BYTES), once.ops
  local from = once.from
  once.totals, once.highest_op = totals, string.sub(totals, from, from + OP_BYTES - 1)
  local before = struct.unpack('>I8', once.highest_op)
  local highest = before
  for at = 1, #ops do
    local op = struct.unpack('>I8', ops[at])
    if op <= before then
      local answer = redis.call('HGET', once.young, ops[at]) or redis.call('HGET', once.old, ops[at])
      if answer then once.answered[at], once.known = cmsgpack.unpack(answer), once.known + 1 end
    elseif op > highest then
      highest, once.highest_op = op, ops[at]
    end
  end
  return once.answered
end

-- Stores the answers to the new requests.
local function remember_all(once, answers)
  local totals = once.totals
  local old_bytes, old_calls, said = struct.unpack(COUNTS, totals)
  local bytes, calls, fresh = old_bytes, old_calls, {}
  for at = 1, #answers do
    if not once.answered[at] then
      local packed = cmsgpack.pack(answers[at])
      fresh[#fresh + 1], fresh[#fresh + 2] = once.ops[at], packed
      bytes, calls = bytes + #packed, calls + 1
    end
  end
  if not fresh[1] then return answers end
  if old_bytes > KEPT_BYTES or old_calls > KEPT_CALLS then
    redis.call('RENAME', once.young, once.old)
    bytes, calls, said = bytes - old_bytes, calls - old_calls, 0
  end
  local says = now > said + HOUR_US
  local counts = struct.pack(COUNTS, bytes, calls, says and now or said)
  local from = once.from
  totals = counts .. string.sub(totals, OPS_FROM, from - 1) .. once.highest_op .. string.sub(totals, from + OP_BYTES)
  redis.call('HSET', once.young, 'totals', totals, unpack(fresh))
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
