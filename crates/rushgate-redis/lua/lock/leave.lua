-- Leaves the line, or releases the lock if it has just been granted.
--
-- KEYS[1-4]  the lock (include/lock.lua)
-- ARGV[1]    token: 16 bytes
-- ARGV[2]    claim window: 10,000 to 2,000,000 µs; 2,000,000 unless there is a reason
--
-- 2  it had the lock, and released it
-- 1  it stood in line
-- 0  neither
--
-- flags: allow-oom
-- include: now
-- include: line
local lock = lock_keys(1)
if holds(lock, ARGV[1]) then
  release(lock)
  take_from_line(lock, ARGV[1])
  hand_over(lock, tonumber(ARGV[2]))
  return 2
end
local ends = lock.lined and redis.call('ZSCORE', lock.ends, ARGV[1])
take_from_line(lock, ARGV[1])
return ends and tonumber(ends) > now and 1 or 0
