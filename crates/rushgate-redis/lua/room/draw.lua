-- Draws the order of a sale's waiting room, once: reveals the secret and starts to admit buyers. The entry must be
-- closed first.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
-- ARGV[1]    beacon: text of at most 256 bytes; at least 1. Only the first call counts
--
-- 0       no such sale
-- 1       the sale has no room
-- 2       the room is first come, first served
-- {room}  as `rushgate_1_room_set` answers; unchanged and without a beacon if the entry is not closed
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
