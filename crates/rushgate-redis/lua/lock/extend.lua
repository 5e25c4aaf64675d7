-- Extends the lease of a lock.
--
-- KEYS[1-4]  the lock
-- ARGV[1]    token: 16 bytes
-- ARGV[2]    lease: 10,000 to 86,400,000,000 µs; from now
--
-- {fence, lease until, lease left}  extended
-- {}                                the token does not hold the lock, or its lease has expired
--
-- flags: allow-oom
-- include: now
-- include: line
local lock = lock_of(KEYS[1])
if not holds(lock, ARGV[1]) then
  return {}
end
local lease = tonumber(ARGV[2])
local _, fence, till = unpack(confirm(lock, ARGV[1], lease))
return { fence, till, lease }
