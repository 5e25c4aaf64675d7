-- Closes the entry of a sale's waiting room for its draw, once. Buyers who have joined by now take part. Buyers who
-- join later are placed behind them.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
--
-- 0       no such sale
-- 1       the sale has no room
-- 2       the room is first come, first served
-- {room}  as `rushgate_1_room_set` answers
-- include: now
-- include: room
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local r = room_keys(2)
if not r.is_there then return 1 end
if r.draws ~= '1' then return 2 end
if r.entrants == '' then
  r.closed, r.entrants = int(now), int(r.joined)
  redis.call('HSET', r.row, 'z', r.closed, 'e', r.entrants)
end
return room_state(r)
