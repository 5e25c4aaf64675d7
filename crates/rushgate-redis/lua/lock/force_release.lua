-- Force-releases a lock, notifies the holder (`R`) and grants the lock to the next waiter.
--
-- KEYS[1-4]  the lock (include/lock.lua)
-- ARGV[1]    claim window: 10,000 to 2,000,000 µs; recommended: 2,000,000
--
-- {token, fence, lease until, since(7) inbox(8) owner}  the former holder
-- {}                                                    the lock was not held
--
-- flags: allow-oom
-- include: now
-- include: line
local lock = lock_keys(1)
local lost = {}
if is_held(lock) then
  lost = { lock.owner, lock.fence, lock.till, lock.info }
  local inbox = string.format(string.rep('%02x', 8), string.byte(lock.info, 8, 15))
  redis.call('HDEL', lock.state, 'o', 'd', 'i')
  take_from_line(lock, lost[1])
  lock.owner, lock.till = false, 0
  redis.call('PUBLISH', 'rg:in:' .. inbox, 'R' .. lost[1] .. lock.state)
end
hand_over(lock, tonumber(ARGV[1]))
return lost
