-- Extends the lease of a lock.
--
-- KEYS[1-4]  the lock (include/lock.lua)
-- ARGV[1]    token: 16 bytes
-- ARGV[2]    lease: 10,000 to 86,400,000,000 µs; from now
--
-- {fence, lease until, lease left}  extended
-- {}                                the token does not hold the lock, or its lease has expired
--
-- flags: allow-oom
-- include: now
-- include: line
local lock = lock_keys(1)
if not holds(lock, ARGV[1]) then
  return {}
end
local lease = tonumber(ARGV[2])
-- Redis allows ZREM as a first write when out of memory.
redis.call('ZREM', lock.line, ARGV[1])
take_from_line(lock, ARGV[1])
redis.call('HSET', lock.state, 'd', now + lease)
keep_until(lock, now + lease)
return { lock.fence, now + lease, lease }
