-- Releases locks, one per caller, and grants each to its first waiter.
--
-- KEYS[1-4..]  the lock (include/lock.lua), for each lock
-- ARGV[1..]    for each lock, 1 to 128 of them:
--                token: 16 bytes
--
-- {outcome, ...}  one per lock, in order: 1 released, by this call or one of the lock's latest four releases; 0 not held
--
-- flags: allow-oom
-- include: now
-- include: lock
local answers, rest, of_first = {}, {}, nil
for n = 1, #KEYS / 4 do
  local lock, token = lock_keys(4 * n - 3), ARGV[n]
  if lock.lined then
    rest[#rest + 1], of_first = n, of_first or lock
  else
    if holds(lock, token) then
      release(lock)
      answers[n] = 1
    else
      answers[n] = was_released(lock, token)
    end
  end
end
if not of_first then return answers end

-- include: line
for _, n in ipairs(rest) do
  -- An earlier request of the call may have changed the same lock.
  local lock, token = of_first or lock_keys(4 * n - 3), ARGV[n]
  of_first = nil
  if holds(lock, token) then
    release(lock)
    take_from_line(lock, token)
  end
  hand_over(lock)
  answers[n] = was_released(lock, token)
end
return answers
