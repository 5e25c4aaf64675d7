-- Gives a lock up and hands it to the first in line.
--
-- KEYS[1-4]  the lock (include/lock.lua)
-- ARGV[1]    token: 16 bytes
-- ARGV[2]    claim window: 10,000 to 2,000,000 µs; 2,000,000 unless there is a reason
--
-- 1  released, now or by this very token before
-- 0  not the token's
--
-- flags: allow-oom
-- include: now
-- include: lock
local lock = lock_keys(1)
local held = holds(lock, ARGV[1])
if held then
  release(lock)
end
if not lock.lined then return lock.released == ARGV[1] and 1 or 0 end
-- include: line
if held then
  take_from_line(lock, ARGV[1])
end
hand_over(lock, tonumber(ARGV[2]))
return lock.released == ARGV[1] and 1 or 0
