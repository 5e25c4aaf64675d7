-- Draws the order of a sale's waiting room, once: shows the secret and begins to let people in. Nothing is drawn before its
-- entry is closed.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room (include/room.lua)
-- ARGV[1]    beacon: text of at most 256 bytes; 1 at least. Of several calls the first counts
--
-- 0       there is no such sale
-- 1       it has no room
-- 2       its order is that of arrival
-- {room}  as `room_set` answers; without a beacon if its entry is not closed: nothing was changed
-- include: now
-- include: room
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local r = room_keys(2)
if not r.is_there then return 1 end
if r.draws ~= '1' then return 2 end
if r.closed ~= '' and r.beacon == '' and ARGV[1] ~= '' then
  r.base, r.since, r.beacon = 0, math.max(now, tonumber(r.from) or 0), ARGV[1]
  redis.call('HSET', r.row, 't', r.beacon, 's', int(r.since))
end
return room_state(r)
