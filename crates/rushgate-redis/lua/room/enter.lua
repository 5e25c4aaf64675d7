-- Admits a buyer whose place in a sale's waiting room is served, and returns the state of the buyer. A buyer is
-- admitted once: later calls return the same end of the admission token.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
-- ARGV[1]    buyer: name
-- ARGV[2]    serial: 0 to 2^53 - 1 or ''; the buyer's serial, if the place is known
-- ARGV[3]    place: 0 to 2^53 - 1 or ''; the place that the draw gives to the serial
--
-- 0                                  no such sale
-- 1                                  the sale has no room
-- {serial or '', until or '', room}  '' if the buyer has not joined. until: the end of the admission token, past or
--                                    future, 0 before admission. room: as `rushgate_1_room_set` answers
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
