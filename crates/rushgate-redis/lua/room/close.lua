-- Closes a sale's waiting room and removes all who wait.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
--
-- 0  no such sale
-- 1  the sale has no room
-- 2  closed
--
-- flags: allow-oom
-- include: now
-- include: room
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local r = room_keys(2)
if not r.is_there then return 1 end
-- The server frees the memory in the background.
redis.call('UNLINK', r.row, r.tickets)
return 2
