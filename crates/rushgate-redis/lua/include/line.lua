-- The wait queue of a lock, which most locks do not have.
-- include: lock
-- A waiter that is granted the lock must confirm that it is alive within this time.
local CLAIM_WINDOW_US = 2000000
local WAITER = '>I7I7I7I7c8'
local WAITER_BYTES = 36

local function take_from_line(lock, token)
  if lock.lined and redis.call('HDEL', lock.waiters, token) == 1 then
    redis.call('ZREM', lock.line, token)
    redis.call('ZREM', lock.ends, token)
  end
end

-- Starts the lease of a token that holds the lock, perhaps for the claim window.
local function confirm(lock, token, lease)
  take_from_line(lock, token)
  lock.till = now + lease
  store_lease(lock, lock.till)
  return { 1, lock.fence, lock.till, lease }
end

-- Removes the waiters whose wait has ended.
local function tidy(lock)
  if not lock.lined then return end
  repeat
    local over = redis.call('ZRANGEBYSCORE', lock.ends, '-inf', now_text(), 'LIMIT', '0', 500)
    for _, token in ipairs(over) do
      redis.call('HDEL', lock.waiters, token)
      redis.call('ZREM', lock.line, token)
      redis.call('ZREM', lock.ends, token)
    end
  until #over < 500
end

-- Grants a free lock to the first waiter, for at most the claim window, and notifies it: `A`, token, fence, lease
-- until, lease left, key.
local function hand_over(lock)
  tidy(lock)
  if is_held(lock) or not lock.lined then return end
  local token = redis.call('ZRANGE', lock.line, '0', '0')[1]
  if not token then return end
  local row = redis.call('HGET', lock.waiters, token)
  local _, lease, _, _, inbox = struct.unpack(WAITER, row)
  redis.call('ZREM', lock.line, token)
  lease = math.min(lease, CLAIM_WINDOW_US)
  grant(lock, token, now + lease, inbox, string.sub(row, WAITER_BYTES + 1))
  local channel = 'rg:in:' .. string.format('%08x%08x', struct.unpack('>I4I4', inbox))
  redis.call('PUBLISH', channel, 'A' .. token .. struct.pack('>I7I7I7', lock.fence, lock.till, lease) .. lock.key)
end
