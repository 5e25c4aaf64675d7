-- Takes one client out of one lock and its line.
--
-- KEYS[1-4]  the lock (include/lock.lua)
-- ARGV[1]    client: 8 bytes; the first of its tokens
-- ARGV[2]    claim window: 10,000 to 2,000,000 µs; 2,000,000 unless there is a reason
--
-- 1  it held the lock
-- 0  it did not
--
-- flags: allow-oom
-- include: now
-- include: line
local lock = lock_keys(1)
if lock.lined then
  for _, token in ipairs(redis.call('HKEYS', lock.waiters)) do
    if string.sub(token, 1, 8) == ARGV[1] then
      take_from_line(lock, token)
    end
  end
end
if is_held(lock) and string.sub(lock.owner, 1, 8) == ARGV[1] then
  release(lock)
  hand_over(lock, tonumber(ARGV[2]))
  return 1
end
return 0
