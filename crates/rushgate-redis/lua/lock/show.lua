-- Returns the holder and the waiters of a lock.
--
-- KEYS[1-4]  the lock
--
-- {holder, waiters}  holder: {token, fence, lease until, since(7) inbox(8) owner}, or {} if the lock is free
--                    waiters: {token, ticket(7) lease(7) since(7) until(7) inbox(8) owner, ...}, in any order
--
-- flags: no-writes
-- include: now
-- include: line
local lock = lock_of(KEYS[1])
local holder, waiters = {}, {}
if is_held(lock) then
  holder = { lock.owner, lock.fence, lock.till, info_of(lock) }
end
local rows = lock.lined and redis.call('HGETALL', lock.waiters) or {}
for at = 1, #rows, 2 do
  local _, _, _, till = struct.unpack(WAITER, rows[at + 1])
  if till > now and not holds(lock, rows[at]) then
    table.insert(waiters, rows[at])
    table.insert(waiters, rows[at + 1])
  end
end
return { holder, waiters }
