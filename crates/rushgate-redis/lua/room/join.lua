-- Adds a buyer to a sale's waiting room and returns a serial: 0, 1, 2, … by arrival. A buyer who is in the room keeps
-- the serial. After the admission token has expired, the buyer joins again at the end.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
-- ARGV[1]    buyer: name
--
-- 0                             no such sale
-- 1                             the sale has no room
-- {serial, again, until, room}  again: 1 if the buyer was in the room before. until: the end of the admission token, or
--                               0. room: as `rushgate_1_room_set` answers
-- include: now
-- include: room
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local r = room_keys(2)
if not r.is_there then return 1 end
local serial, ends = read_ticket(r, ARGV[1])
local again = serial and (ends == 0 or now < ends)
if not again then
  serial, ends = r.joined, 0
  redis.call('HSET', r.tickets, ARGV[1], struct.pack(TICKET, serial, ends))
  -- The buyer is next and is served at once: unused places do not accumulate.
  if r.since and reach(r) > r.joined then
    r.base, r.since = r.joined, now
    redis.call('HSET', r.row, 'b', int(r.base), 's', int(r.since))
  end
  r.joined = r.joined + 1
  redis.call('HSET', r.row, 'j', int(r.joined))
end
return { serial, again and 1 or 0, ends, room_state(r) }
