-- Confirms a grant or returns the position in the wait queue, as `rushgate_1_lock_acquire` does, when the server's memory
-- is full. Nothing is acquired: for a token that neither holds the lock nor waits for it, the error is `OOM`.
--
-- KEYS[1-4..]  the lock, for each lock
-- ARGV[1..]    for each lock, 1 to 128 of them:
--                token: 16 bytes
--                lease: 10,000 to 86,400,000,000 µs
--                wait: 0 to 86,400,000,000 µs; how long to stay in the wait queue; 0 to return "busy" at once
--                barging: 0 or 1; 1 to ignore the wait queue
--                inbox: 8 bytes; of the calling process, zeros if it has none
--                owner: owner
--
-- {answer, ...}  one per lock, in order: granted or waiting, as `rushgate_1_lock_acquire` answers
--
-- flags: allow-oom
-- include: now
-- include: lock
-- include: line
local function answer(lock, token, lease)
  tidy(lock)
  if holds(lock, token) then return confirm(lock, token, tonumber(lease)) end
  hand_over(lock)
  local rank = lock.lined and redis.call('ZRANK', lock.line, token)
  return rank and { 2, rank + 1, left(lock), lock.fence }
end

local answers = {}
for n = 1, #KEYS do
  local of = answer(lock_of(KEYS[n]), unpack(ARGV, 6 * n - 5, 6 * n))
  if not of then return FULL end
  answers[n] = of
end
return answers
