-- A lock and its wait queue. Its four keys, in this order:
--   state    HASH  o token of the holder; d lease until; f latest fence; i since(7) inbox(8) owner of the holder;
--                  t latest ticket; e when the keys expire, µs; r tokens of earlier releases, the latest first. Without
--                  d the lock is free, and o is the token of the very latest release
--   line     ZSET  token -> ticket, of the waiters that are considered alive
--   waiters  HASH  token -> ticket(7) lease(7) since(7) until(7) inbox(8) owner, of all waiters, including one that
--                  was granted the lock for the claim window or let that window pass
--   ends     ZSET  token -> end of its wait
-- An unused lock is deleted an hour after it was last needed. Its next fence is then taken from the clock.
local KEPT_US = 3600 * 1000000
-- The latest 64 releases are kept, so that a retried release gets the same answer.
local RELEASED_BYTES = 64 * 16

local function lock_keys(first)
  local row = redis.call('HMGET', KEYS[first], 'o', 'd', 'f', 'i', 'r', 'e', 't')
  local last = row[1] and not row[2] and row[1] or ''
  return {
    state = KEYS[first], line = KEYS[first + 1], waiters = KEYS[first + 2], ends = KEYS[first + 3],
    owner = row[1], till = tonumber(row[2]) or 0, fence = tonumber(row[3]) or 0, info = row[4],
    released = string.sub(last .. (row[5] or ''), 1, RELEASED_BYTES), expires = tonumber(row[6]) or 0,
    lined = row[7] and redis.call('EXISTS', KEYS[first + 2]) == 1,
  }
end

local function is_held(lock)
  return lock.owner and lock.till > now
end

local function holds(lock, token)
  return lock.owner == token and lock.till > now
end

-- Makes the keys expire later than that moment.
local function keep_until(lock, moment)
  if moment > lock.expires then
    lock.expires = moment + KEPT_US
    local at = int(math.floor(lock.expires / 1000))
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
  redis.call('HSET', lock.state, 'o', token, 'd', int(till), 'f', int(lock.fence), 'r', lock.released,
    'i', struct.pack('>I7c8', now, inbox) .. owner)
  keep_until(lock, till)
end

-- Releases the lock for its holder. HDEL is a write that Redis allows when out of memory.
local function release(lock)
  redis.call('HDEL', lock.state, 'd')
  lock.released, lock.owner, lock.till = lock.owner .. lock.released, false, 0
end

-- The answer to a release: 1 if the token is among the latest that released the lock.
local function was_released(lock, token)
  for at = 1, #lock.released, #token do
    if string.sub(lock.released, at, at + #token - 1) == token then return 1 end
  end
  return 0
end

local function left(lock)
  return is_held(lock) and lock.till - now or 0
end
