-- Releases locks, one per caller, and grants each to its first waiter.
--
-- KEYS[1-4..]  the lock, for each lock
-- ARGV[1..]    for each lock, 1 to 128 of them:
--                token: 16 bytes
--
-- {outcome, ...}  one per lock, in order: 1 released, by this call or one of the lock's latest four releases; 0 not held
--
-- flags: allow-oom
-- include: now
-- include: lock
local answers, rest = {}, {}
for n = 1, #KEYS do
  if release_free(KEYS[n], ARGV[n]) then
    answers[n] = 1
  else
    rest[#rest + 1] = n
  end
end
if not rest[1] then return answers end

-- include: line
for _, n in ipairs(rest) do
  local lock, token = lock_of(KEYS[n]), ARGV[n]
  if holds(lock, token) then
    release(lock)
    take_from_line(lock, token)
  end
  hand_over(lock)
  answers[n] = was_released(lock, token)
end
return answers
