-- Leaves the line, or releases the lock if it has just been granted.
--
-- KEYS[1-4]  the lock (include/lock.lua)
-- ARGV[1]    token, 16 bytes
-- ARGV[2]    claim window, µs
--
-- 2  it had the lock, and released it
-- 1  it stood in line
-- 0  neither
-- include: now
-- include: lock
local lock = lock_keys(1)
if holds(lock, ARGV[1]) then
  release(lock, ARGV[1])
  hand_over(lock, tonumber(ARGV[2]))
  return 2
end
local ends = lock.lined and redis.call('ZSCORE', lock.ends, ARGV[1])
take_from_line(lock, ARGV[1])
return ends and tonumber(ends) > now and 1 or 0
