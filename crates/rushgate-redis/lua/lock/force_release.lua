-- Force-releases a lock, notifies the holder (`R`) and grants the lock to the next waiter.
--
-- KEYS[1-4]  the lock
--
-- {token, fence, lease until, since(7) inbox(8) owner}  the former holder
-- {}                                                    the lock was not held
--
-- flags: allow-oom
-- include: now
-- include: line
local lock = lock_of(KEYS[1])
local lost = {}
if is_held(lock) then
  local info = info_of(lock)
  lost = { lock.owner, lock.fence, lock.till, info }
  local inbox = string.format(string.rep('%02x', 8), string.byte(info, 8, 15))
  -- Without its token, this is none of the releases that a repeat finds.
  redis.call('SETRANGE', lock.key, TOKEN_AT - 1, NOBODY)
  lock.owner = NOBODY
  release(lock)
  take_from_line(lock, lost[1])
  redis.call('PUBLISH', 'rg:in:' .. inbox, 'R' .. lost[1] .. lock.key)
end
hand_over(lock)
return lost
