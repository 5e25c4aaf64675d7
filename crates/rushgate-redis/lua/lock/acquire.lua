-- Asks for a lock, confirms a grant, or asks how the line stands.
--
-- KEYS[1-4]  the lock (include/lock.lua)
-- ARGV[1]    token: 16 bytes
-- ARGV[2]    lease: 10,000 to 86,400,000,000 µs
-- ARGV[3]    wait: 0 to 86,400,000,000 µs; how long to stay in line, 0 to be told "busy"
-- ARGV[4]    barging: 0 or 1; 1 to ignore the line
-- ARGV[5]    claim window: 10,000 to 2,000,000 µs; 2,000,000 unless there is a reason
-- ARGV[6]    inbox: 8 bytes; of the process that asks, zeros if it has none
-- ARGV[7]    owner: owner
--
-- {1, fence, lease until, lease left}  granted
-- {2, position, check after, fence}    in line; the fence is that of the latest grant
-- {3, retry after, waiters}            busy
-- include: now
-- include: lock
local lock = lock_keys(1)
local token, lease, wait = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not lock.lined and not is_held(lock) then
  grant(lock, token, now + lease, ARGV[6], ARGV[7])
  return { 1, lock.fence, now + lease, lease }
end
-- include: line
tidy(lock)
if holds(lock, token) then
  -- The first write is one that a server out of memory allows: a confirmation must not be refused.
  redis.call('ZREM', lock.line, token)
  take_from_line(lock, token)
  redis.call('HSET', lock.state, 'd', now + lease)
  keep_until(lock, now + lease)
  return { 1, lock.fence, now + lease, lease }
end
local row = lock.lined and redis.call('HGET', lock.waiters, token)
if row and not redis.call('ZSCORE', lock.line, token) then
  -- Who let a claim window pass takes its old place again.
  redis.call('ZADD', lock.line, struct.unpack('>I7', row), token)
end
if not is_held(lock) then
  local first = lock.lined and redis.call('ZRANGE', lock.line, 0, 0)[1]
  if not first or first == token or ARGV[4] == '1' then
    take_from_line(lock, token)
    grant(lock, token, now + lease, ARGV[6], ARGV[7])
    return { 1, lock.fence, now + lease, lease }
  end
end
if not row and wait > 0 then
  local ticket = redis.call('HINCRBY', lock.state, 't', 1)
  redis.call('HSET', lock.waiters, token, struct.pack(WAITER, ticket, lease, now, now + wait, ARGV[6]) .. ARGV[7])
  redis.call('ZADD', lock.line, ticket, token)
  redis.call('ZADD', lock.ends, now + wait, token)
  lock.lined, lock.expires = true, 0
  keep_until(lock, math.max(now + wait, lock.till))
end
hand_over(lock, tonumber(ARGV[5]))
local rank = wait > 0 and redis.call('ZRANK', lock.line, token)
if rank then
  return { 2, rank + 1, left(lock), lock.fence }
end
return { 3, left(lock), redis.call('ZCARD', lock.line) }
