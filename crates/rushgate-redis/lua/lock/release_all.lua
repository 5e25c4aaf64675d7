-- Removes a client from one lock: releases the lock if the client holds it, and leaves the wait queue.
--
-- KEYS[1-4]  the lock
-- ARGV[1]    client: 8 bytes; the first of its tokens
--
-- 1  the client held the lock
-- 0  it did not
--
-- flags: allow-oom
-- include: now
-- include: line
local lock = lock_of(KEYS[1])
if lock.lined then
  for _, token in ipairs(redis.call('HKEYS', lock.waiters)) do
    if string.sub(token, 1, 8) == ARGV[1] then
      take_from_line(lock, token)
    end
  end
end
if is_held(lock) and string.sub(lock.owner, 1, 8) == ARGV[1] then
  release(lock)
  hand_over(lock)
  return 1
end
return 0
