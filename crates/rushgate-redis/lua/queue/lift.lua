-- Ends the time for which an id is unique: it may be put in again at once. Its task, if it is live, stays as it is.
--
-- KEYS[1]    the unique ids (include/unique.lua)
-- KEYS[2-3]  the client's latest answers (include/once.lua)
-- ARGV[1]    op: 8 bytes; new for each call of this client, the same when the call is sent again
-- ARGV[2]    id: name
--
-- {until}  until when it would have been unique, in µs; 0 if it was not
--
-- flags: allow-oom
-- include: now
-- include: unique
-- include: once
local once = replay_keys(2, ARGV[1])
local answer = remembered(once)
if answer then return answer end
local till = unique_until(KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[1], ARGV[2])
return remember(once, { till or 0 })
