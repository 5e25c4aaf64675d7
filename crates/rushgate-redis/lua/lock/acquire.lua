-- Acquires locks, one per caller. Calling again with the same token confirms a grant or returns the position in the
-- wait queue.
--
-- KEYS[1-4..]  the lock, for each lock
-- ARGV[1..]    for each lock, 1 to 128 of them:
--                token: 16 bytes
--                lease: 10,000 to 86,400,000,000 µs
--                wait: 0 to 86,400,000,000 µs; how long to stay in the wait queue; 0 to return "busy" at once
--                barging: 0 or 1; 1 to ignore the wait queue
--                inbox: 8 bytes; of the calling process, zeros if it has none
--                owner: owner
--
-- {answer, ...}  one per lock, in order:
--   {1, fence, lease until, lease left}  granted
--   {2, position, check after, fence}    waiting; the fence is that of the latest grant
--   {3, retry after, waiters}            busy
-- include: now
-- include: lock
-- Most locks are free and have no waiters, so they are handled first, with little of this script.
local answers, rest = {}, {}
for n = 1, #KEYS do
  local at = 6 * n - 5
  local lease = tonumber(ARGV[at + 1])
  local fence = grant_free(KEYS[n], ARGV[at], now + lease, ARGV[at + 4], ARGV[at + 5])
  if fence then
    answers[n] = { 1, fence, now + lease, lease }
  else
    rest[#rest + 1] = n
  end
end
if not rest[1] then return answers end

-- include: line
local function acquire(lock, token, lease, wait, barging, inbox, owner)
  tidy(lock)
  if holds(lock, token) then return confirm(lock, token, lease) end
  local row = lock.lined and redis.call('HGET', lock.waiters, token)
  if row and not redis.call('ZSCORE', lock.line, token) then
    -- A waiter that let its claim window pass returns to its old place.
    redis.call('ZADD', lock.line, struct.unpack('>I7', row), token)
  end
  if not is_held(lock) then
    local first = lock.lined and redis.call('ZRANGE', lock.line, '0', '0')[1]
    if not first or first == token or barging == '1' then
      take_from_line(lock, token)
      grant(lock, token, now + lease, inbox, owner)
      return { 1, lock.fence, lock.till, lease }
    end
  end
  if not row and wait > 0 then
    lock.ticket = lock.ticket + 1
    redis.call('HSET', lock.waiters, token, struct.pack(WAITER, lock.ticket, lease, now, now + wait, inbox) .. owner)
    redis.call('ZADD', lock.line, lock.ticket, token)
    redis.call('ZADD', lock.ends, int(now + wait), token)
    -- The keys of the wait queue may be new, so that they have no expiry yet.
    lock.lined, lock.expires = true, 0
    store_lease(lock, math.max(now + wait, lock.till))
  end
  hand_over(lock)
  local rank = wait > 0 and redis.call('ZRANK', lock.line, token)
  if rank then return { 2, rank + 1, left(lock), lock.fence } end
  return { 3, left(lock), redis.call('ZCARD', lock.line) }
end

for _, n in ipairs(rest) do
  local token, lease, wait, barging, inbox, owner = unpack(ARGV, 6 * n - 5, 6 * n)
  answers[n] = acquire(lock_of(KEYS[n]), token, tonumber(lease), tonumber(wait), barging, inbox, owner)
end
return answers
