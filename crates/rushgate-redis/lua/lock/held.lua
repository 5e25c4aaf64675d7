-- Returns the grant that a token holds.
--
-- KEYS[1-4]  the lock
-- ARGV[1]    token: 16 bytes
--
-- {fence, lease until, lease left}  the token holds the lock
-- {}                                it does not
--
-- flags: no-writes
-- include: now
-- include: lock
local lock = lock_of(KEYS[1])
if not holds(lock, ARGV[1]) then
  return {}
end
return { lock.fence, lock.till, left(lock) }
