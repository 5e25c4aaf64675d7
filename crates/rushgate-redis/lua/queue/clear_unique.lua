-- Clears the uniqueness window of an id, which may then be enqueued again at once. A live task stays as it is.
--
-- KEYS[1]    the uniqueness windows
-- KEYS[2-3]  the replay cache
-- ARGV[1]    op: 8 bytes
-- ARGV[2]    id: name
--
-- {until}  when the window would have ended, µs; 0 if there was none
--
-- flags: allow-oom
-- include: now
-- include: unique
-- include: once
local once = replay_keys(2, ARGV[1], op_of.other)
local answer = remembered(once)
if answer then return answer end
local till = unique_until(KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[1], ARGV[2])
return remember(once, { till or 0 })
