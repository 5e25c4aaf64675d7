-- Leaves the wait queue of a lock, or releases the lock if it has just been granted.
--
-- KEYS[1-4]  the lock
-- ARGV[1]    token: 16 bytes
--
-- 2  the token held the lock, which is released
-- 1  it was in the wait queue
-- 0  neither
--
-- flags: allow-oom
-- include: now
-- include: line
local lock = lock_of(KEYS[1])
if holds(lock, ARGV[1]) then
  release(lock)
  take_from_line(lock, ARGV[1])
  hand_over(lock)
  return 2
end
local ends = lock.lined and redis.call('ZSCORE', lock.ends, ARGV[1])
take_from_line(lock, ARGV[1])
return ends and tonumber(ends) > now and 1 or 0
