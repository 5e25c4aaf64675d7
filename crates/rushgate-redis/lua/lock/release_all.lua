-- Takes one client out of one lock and its line.
--
-- KEYS[1-4]  the lock (include/lock.lua)
-- ARGV[1]    client, the first 8 bytes of its tokens
-- ARGV[2]    claim window, µs
--
-- 1  it held the lock
-- 0  it did not
-- include: now
-- include: lock
local lock = lock_keys(1)
if lock.lined then
  for _, token in ipairs(redis.call('HKEYS', lock.waiters)) do
    if string.sub(token, 1, 8) == ARGV[1] then
      take_from_line(lock, token)
    end
  end
end
if is_held(lock) and string.sub(lock.owner, 1, 8) == ARGV[1] then
  release(lock, lock.owner)
  hand_over(lock, tonumber(ARGV[2]))
  return 1
end
return 0
