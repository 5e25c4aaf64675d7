-- Takes a sale's waiting room away, with all who wait.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room (include/room.lua)
--
-- 0  there is no such sale
-- 1  it had no room
-- 2  it is closed
--
-- flags: allow-oom
-- include: now
-- include: room
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local r = room_keys(2)
if not r.is_there then return 1 end
-- The server forgets what is in them by and by.
redis.call('UNLINK', r.row, r.tickets)
return 2
