-- A lock and its line. Its four keys, in this order:
--   state    HASH  o holder's token, d lease until, f latest fence, i since(7) inbox(8) owner of the holder,
--                  r token that was released last, t latest ticket, e when the keys expire (µs, never what a lease is)
--   line     ZSET  token -> ticket, of those who wait and are expected to be alive
--   waiters  HASH  token -> ticket(7) lease(7) since(7) until(7) inbox(8) owner, of all who stand in line: also of
--                  the one who was granted the lock for the claim window, or let that window pass
--   ends     ZSET  token -> wait until
local WAITER = '>I7I7I7I7c8'
local WAITER_BYTES = 36
-- A lock that is not used is forgotten so long after it was last wanted. Its fence then goes on from the clock.
local KEPT_US = 3600 * 1000000

local function lock_keys(first)
  local lock = { state = KEYS[first], line = KEYS[first + 1], waiters = KEYS[first + 2], ends = KEYS[first + 3] }
  local row = redis.call('HMGET', lock.state, 'o', 'd', 'f', 'i', 'r', 'e')
  lock.owner, lock.till, lock.fence = row[1], tonumber(row[2]) or 0, tonumber(row[3]) or 0
  lock.info, lock.released, lock.expires = row[4], row[5], tonumber(row[6]) or 0
  lock.lined = redis.call('EXISTS', lock.waiters) == 1
  return lock
end

local function is_held(lock)
  return lock.owner and lock.till > now
end

local function holds(lock, token)
  return lock.owner == token and lock.till > now
end

local function take_from_line(lock, token)
  if lock.lined and redis.call('HDEL', lock.waiters, token) == 1 then
    redis.call('ZREM', lock.line, token)
    redis.call('ZREM', lock.ends, token)
  end
end

-- Those whose wait is over leave the line.
local function tidy(lock)
  if not lock.lined then return end
  repeat
    local over = redis.call('ZRANGEBYSCORE', lock.ends, '-inf', int(now), 'LIMIT', 0, 500)
    for _, token in ipairs(over) do
      redis.call('HDEL', lock.waiters, token)
      redis.call('ZREM', lock.line, token)
      redis.call('ZREM', lock.ends, token)
    end
  until #over < 500
end

-- Sees to it that the keys outlive that moment.
local function keep_until(lock, moment)
  if moment > lock.expires then
    lock.expires = moment + KEPT_US
    local at = string.format('%.0f', math.floor(lock.expires / 1000))
    redis.call('HSET', lock.state, 'e', int(lock.expires))
    redis.call('PEXPIREAT', lock.state, at)
    if lock.lined then
      redis.call('PEXPIREAT', lock.line, at)
      redis.call('PEXPIREAT', lock.waiters, at)
      redis.call('PEXPIREAT', lock.ends, at)
    end
  end
end

local function grant(lock, token, till, inbox, owner)
  lock.fence = math.max(lock.fence + 1, now)
  lock.owner, lock.till = token, till
  redis.call('HSET', lock.state, 'o', token, 'd', int(till), 'f', int(lock.fence),
    'i', struct.pack('>I7c8', now, inbox) .. owner)
  keep_until(lock, till)
end

local function free(lock)
  redis.call('HDEL', lock.state, 'o', 'd', 'i')
  lock.owner, lock.till = false, 0
end

-- Gives a free lock to the first in line for no longer than the claim window, and wakes it: `A` asks it to confirm.
local function hand_over(lock, window)
  tidy(lock)
  if is_held(lock) or not lock.lined then return end
  local token = redis.call('ZRANGE', lock.line, 0, 0)[1]
  if not token then return end
  local row = redis.call('HGET', lock.waiters, token)
  local _, lease, _, _, inbox = struct.unpack(WAITER, row)
  redis.call('ZREM', lock.line, token)
  grant(lock, token, now + math.min(lease, window), inbox, string.sub(row, WAITER_BYTES + 1))
  redis.call('PUBLISH', 'rg:in:' .. string.format(string.rep('%02x', 8), string.byte(inbox, 1, 8)), 'A' .. token .. lock.state)
end

-- The holder gives the lock up.
local function release(lock, token)
  free(lock)
  take_from_line(lock, token)
  redis.call('HSET', lock.state, 'r', token)
  lock.released = token
end

local function left(lock)
  return is_held(lock) and lock.till - now or 0
end
