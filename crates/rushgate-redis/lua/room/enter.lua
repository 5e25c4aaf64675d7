-- Looks where a buyer stands in a sale's waiting room, and lets him in if his place is served. He is let in once: asked
-- again, his pass ends at the same moment.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room (include/room.lua)
-- ARGV[1]    buyer: name
-- ARGV[2]    serial: 0 to 9,007,199,254,740,991 or ''; his, if his place is known
-- ARGV[3]    place: 0 to 9,007,199,254,740,991 or ''; that follows from it by the draw
--
-- 0                              there is no such sale
-- 1                              it has no room
-- {serial or '', until or '', room}  '' if he is not in; when his pass ends or ended, 0 if he has had none; the room as
--   `room_set` answers
-- include: now
-- include: room
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local r = room_keys(2)
if not r.is_there then return 1 end
local serial, ends = read_ticket(r, ARGV[1])
local place = serial
if serial and r.draws == '1' then
  place = tonumber(ARGV[2]) == serial and tonumber(ARGV[3])
end
if ends == 0 and place and place < served(r) then
  ends, r.admitted = now + r.pass, int(r.admitted + 1)
  redis.call('HSET', r.tickets, ARGV[1], struct.pack(TICKET, serial, ends))
  redis.call('HSET', r.row, 'a', r.admitted)
end
return { serial or '', ends or '', room_state(r) }
