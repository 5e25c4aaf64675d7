-- A lock and its wait queue. Its four keys, in this order:
--   lock     STRING  the latest grant
--   line     ZSET    token -> ticket, of the waiters that are considered alive
--   waiters  HASH    token -> waiter, of all waiters, including one that was granted the lock for the claim window or let
--                    that window pass
--   ends     ZSET    token -> end of its wait
-- The last three exist only while the lock has waiters. An unused lock is deleted about an hour after it was last
-- needed. Its next fence is then taken from the clock.
--
-- Records in answers:
--   waiter  ticket(7) lease(7) since(7) until(7) inbox(8) owner
-- The waiter with the smallest ticket is the first.
--
-- internals:
--   lock  until(7) expires(7) ticket(7) waited for(1) fence(7) token(16) owner's length(2) since(7) inbox(8) owner
--         [token(16)..]
--         until: end of the lease, 0 if the lock was released; expires: when the keys expire, a full minute; ticket: the
--         latest; waited for: 1 if the lock has waiters or had some; fence, token, since, inbox and owner: of the latest
--         grant; token is zeros after a forced release; at the end, the tokens of earlier releases, the latest first
--
-- Budget of a lock without waiters: a grant is GET and SET, a release is GET and SETRANGE, with at most one pack and one
-- unpack each.
local KEPT_US, MINUTE_US = 3600 * 1000000, 60 * 1000000
-- The latest four releases are kept, so that a retried release gets the same answer.
local RELEASED_BYTES = 4 * 16
local LEASE = '>I7I7I7I1'
local LOCK = '>I7I7I7I1I7c16I2'
local GRANT = '>I7I7I7I1I7c16I2I7c8'
local WAITED_FOR_AT, TOKEN_AT, TOKEN_TO, INFO_AT, OWNER_AT = 22, 30, 45, 48, 63
-- `until` of a released lock.
local RELEASED = '\0\0\0\0\0\0\0'
local NOBODY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- A lock by its first key.
local function lock_of(key)
  local row = redis.call('GET', key)
  local till, expires, ticket, waited_for, fence, owner, length = 0, 0, 0, 0, 0, NOBODY, 0
  if row then
    till, expires, ticket, waited_for, fence, owner, length = struct.unpack(LOCK, row)
  end
  local beginning = string.sub(key, 1, -5)
  local waiters = beginning .. 'waiters'
  -- One constructor, because a table that grows is allocated again and again.
  return {
    key = key, line = beginning .. 'line', waiters = waiters, ends = beginning .. 'ends', row = row, till = till,
    expires = expires, ticket = ticket, fence = fence, owner = owner, owner_to = OWNER_AT + length - 1,
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

-- The tokens of the latest releases, the latest first. `latest` is the token of the last holder, if it has released the
-- lock: the row lists it only after the next grant.
local function released_tokens(row, latest, owner_to)
  local earlier = string.sub(row, owner_to + 1)
  if latest and latest ~= NOBODY then earlier = latest .. earlier end
  return string.sub(earlier, 1, RELEASED_BYTES)
end

-- When the keys of a lock expire that is needed until a moment: in µs, and in ms as text. Full minutes, so that most calls
-- use the text of an earlier one.
local expiry, expiry_text = 0, ''
local function expiry_of(moment)
  local at = moment + KEPT_US
  at = at - at % MINUTE_US + MINUTE_US
  if at ~= expiry then expiry, expiry_text = at, int(at / 1000) end
  return expiry, expiry_text
end

-- Postpones the expiry of the keys, if a moment is later. Returns when they expire, ms, if that has changed.
local function keep_until(lock, moment)
  if moment <= lock.expires then return nil end
  local at
  lock.expires, at = expiry_of(moment)
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
  redis.call('SETRANGE', lock.key, '0', lease)
  if expires then redis.call('PEXPIREAT', lock.key, expires) end
end

local function grant(lock, token, till, inbox, owner)
  local row = lock.row
  local released = row and released_tokens(row, lock.till == 0 and lock.owner, lock.owner_to) or ''
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

-- Grants a lock that is free and has no waiters. Returns its fence, nil if it has another state.
local function grant_free(key, token, till, inbox, owner)
  local row = redis.call('GET', key)
  if not row then
    local expires, at = expiry_of(till)
    redis.call('SET', key, struct.pack(GRANT, till, expires, 0, 0, now, token, #owner, now, inbox) .. owner, 'PXAT', at)
    return now
  end
  local before, expires, ticket, waited_for, fence, latest, length = struct.unpack(LOCK, row)
  if before > now or waited_for == 1 then return nil end
  local released = released_tokens(row, before == 0 and latest, OWNER_AT + length - 1)
  local at
  if till > expires then expires, at = expiry_of(till) end
  fence = math.max(fence + 1, now)
  row = struct.pack(GRANT, till, expires, ticket, 0, fence, token, #owner, now, inbox) .. owner .. released
  if at then redis.call('SET', key, row, 'PXAT', at) else redis.call('SET', key, row, 'KEEPTTL') end
  return fence
end

-- Releases a lock of its holder, if it has no waiters. False if it has another state.
local function release_free(key, token)
  local row = redis.call('GET', key)
  if not row or string.sub(row, TOKEN_AT, TOKEN_TO) ~= token or string.byte(row, WAITED_FOR_AT) == 1
    or struct.unpack('>I7', row) <= now then
    return false
  end
  redis.call('SETRANGE', key, '0', RELEASED)
  return true
end

-- Releases the lock for its holder.
local function release(lock)
  lock.till = 0
  redis.call('SETRANGE', lock.key, '0', RELEASED)
end

-- The answer to a release: 1 if the token is among the latest that released the lock.
local function was_released(lock, token)
  if not lock.row then return 0 end
  local released = released_tokens(lock.row, lock.till == 0 and lock.owner, lock.owner_to)
  for at = 1, #released, #token do
    if string.sub(released, at, at + #token - 1) == token then return 1 end
  end
  return 0
end

local function left(lock)
  return is_held(lock) and lock.till - now or 0
end
