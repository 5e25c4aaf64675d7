-- Gives a buyer a serial in a sale's waiting room: 0, 1, 2, … by arrival. Whoever is in keeps his, unless his pass ran
-- out: he joins anew, at the end.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room (include/room.lua)
-- ARGV[1]    buyer: name
--
-- 0                             there is no such sale
-- 1                             it has no room
-- {serial, again, until, room}  1 if he was in before; when his pass ends, or 0; the room as `room_set` answers
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
  -- At the end of an empty line it is his turn at once: what nobody stood at is not saved up.
  if r.since and reach(r) > r.joined then
    r.base, r.since = r.joined, now
    redis.call('HSET', r.row, 'b', int(r.base), 's', int(r.since))
  end
  r.joined = r.joined + 1
  redis.call('HSET', r.row, 'j', int(r.joined))
end
return { serial, again and 1 or 0, ends, room_state(r) }
