-- A lock and its wait queue. Its four keys, in this order:
--   lock     STRING  until(7) expires(7) ticket(7) waited for(1) fence(7) token(16) owner's length(2) since(7) inbox(8)
--                    owner [token(16)..]
--                    until: end of the lease, 0 if the lock was released; expires: when the keys expire; ticket: the
--                    latest; waited for: 1 if the lock has waiters or had some; fence, token, since, inbox and owner:
--                    of the latest grant; token is zeros after a forced release; at the end, the tokens of earlier
--                    releases, the latest first
--   line     ZSET    token -> ticket, of the waiters that are considered alive
--   waiters  HASH    token -> ticket(7) lease(7) since(7) until(7) inbox(8) owner, of all waiters, including one that
--                    was granted the lock for the claim window or let that window pass
--   ends     ZSET    token -> end of its wait
-- The last three exist only while the lock has waiters. An unused lock is deleted an hour after it was last needed. Its
-- next fence is then taken from the clock.
--
-- Budget of a lock without waiters: a grant is GET and SET, a release is GET and SETRANGE.
local KEPT_US = 3600 * 1000000
-- The latest four releases are kept, so that a retried release gets the same answer.
local RELEASED_BYTES = 4 * 16
local LEASE = '>I7I7I7I1'
local LOCK = '>I7I7I7I1I7c16I2'
local GRANT = '>I7I7I7I1I7c16I2I7c8'
local TOKEN_AT = 30
local INFO_AT = 48
local OWNER_AT = 63
-- `until` of a released lock.
local RELEASED = '\0\0\0\0\0\0\0'
local NOBODY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

local function lock_keys(first)
  local row, waiters = redis.call('GET', KEYS[first]), KEYS[first + 2]
  local till, expires, ticket, waited_for, fence, owner, length = 0, 0, 0, 0, 0, NOBODY, 0
  if row then
    till, expires, ticket, waited_for, fence, owner, length = struct.unpack(LOCK, row)
  end
  -- One constructor, because a table that grows is allocated again and again.
  return {
    key = KEYS[first], line = KEYS[first + 1], waiters = waiters, ends = KEYS[first + 3], row = row,
    till = till, expires = expires, ticket = ticket, fence = fence, owner = owner, owner_to = OWNER_AT + length - 1,
    lined = waited_for == 1 and redis.call('EXISTS', waiters) == 1,
  }
end

local function is_held(lock)
  return lock.till > now
end

local function holds(lock, token)
  return lock.owner == token and lock.till > now
end

-- since(7) inbox(8) owner of the holder.
local function info_of(lock)
  return string.sub(lock.row, INFO_AT, lock.owner_to)
end

-- The tokens of the latest releases, the latest first.
local function released_tokens(lock)
  if not lock.row then return '' end
  local earlier = string.sub(lock.row, lock.owner_to + 1)
  if lock.till == 0 and lock.owner ~= NOBODY then earlier = lock.owner .. earlier end
  return string.sub(earlier, 1, RELEASED_BYTES)
end

-- Postpones the expiry of the keys, if a moment is later. Returns when they expire, ms, if that has changed.
local function keep_until(lock, moment)
  if moment <= lock.expires then return nil end
  lock.expires = moment + KEPT_US
  local at = int(math.floor(lock.expires / 1000))
  if lock.lined then
    redis.call('PEXPIREAT', lock.line, at)
    redis.call('PEXPIREAT', lock.waiters, at)
    redis.call('PEXPIREAT', lock.ends, at)
  end
  return at
end

-- Stores what changes between two grants.
local function store_lease(lock, moment)
  local expires = keep_until(lock, moment)
  local lease = struct.pack(LEASE, lock.till, lock.expires, lock.ticket, lock.lined and 1 or 0)
  redis.call('SETRANGE', lock.key, 0, lease)
  if expires then redis.call('PEXPIREAT', lock.key, expires) end
end

local function grant(lock, token, till, inbox, owner)
  local released = released_tokens(lock)
  lock.fence = math.max(lock.fence + 1, now)
  lock.owner, lock.till = token, till
  local expires = keep_until(lock, till)
  local record = struct.pack(GRANT, till, lock.expires, lock.ticket, lock.lined and 1 or 0, lock.fence, token, #owner,
    now, inbox) .. owner
  lock.row, lock.owner_to = record .. released, #record
  if expires then
    redis.call('SET', lock.key, lock.row, 'PXAT', expires)
  else
    redis.call('SET', lock.key, lock.row, 'KEEPTTL')
  end
end

-- Releases the lock for its holder.
local function release(lock)
  lock.till = 0
  redis.call('SETRANGE', lock.key, 0, RELEASED)
end

-- The answer to a release: 1 if the token is among the latest that released the lock.
local function was_released(lock, token)
  local released = released_tokens(lock)
  for at = 1, #released, #token do
    if string.sub(released, at, at + #token - 1) == token then return 1 end
  end
  return 0
end

local function left(lock)
  return is_held(lock) and lock.till - now or 0
end
