-- Returns the state of a sale's waiting room.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
--
-- 0       no such sale
-- 1       the sale has no room
-- {room}  as `rushgate_1_room_set` answers
--
-- flags: no-writes
-- include: now
-- include: room
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local r = room_keys(2)
if not r.is_there then return 1 end
return room_state(r)
