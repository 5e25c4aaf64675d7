-- Opens a sale's waiting room, or changes its rules while buyers wait. Places that were served stay served, and the new
-- rate applies from there on. Setting the same rules again changes nothing.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
-- ARGV[1]    places: 1 to 10,000; how many are served in the time below
-- ARGV[2]    time: 1,000 to 86,400,000,000 µs
-- ARGV[3]    pass: 1,000,000 to 86,400,000,000 µs; validity of an admission token
-- ARGV[4]    drawn: 0 or 1; 1 for a randomized draw, 0 for first come, first served
-- ARGV[5]    from: 0 to 2^53 - 1 or ''; earliest admission, moment in µs
-- ARGV[6]    secret: 32 bytes; random, for a draw. An existing room keeps its own
-- ARGV[7]    commitment: 32 bytes; the SHA-256 of the secret
--
-- 0  no such sale
-- 2  the room has another order, which cannot be changed
-- {n, time, pass, drawn, from or '', opened, served before, next served or '', joined, served, admitted,
--   commitment or '', entry closed or '', in the draw or '', secret or '', beacon or '', now}
-- include: now
-- include: room
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local r = room_keys(2)
local n, per, from = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])
if not r.is_there then
  local since = ARGV[4] == '0' and int(math.max(now, from or 0)) or ''
  redis.call('HSET', r.row, 'n', ARGV[1], 'u', ARGV[2], 'p', ARGV[3], 'w', ARGV[4], 'f', ARGV[5], 'o', int(now), 'b', 0,
    's', since, 'j', 0, 'a', 0, 'k', ARGV[6], 'c', ARGV[7], 'e', '', 't', '',
    'z', '')
  return room_state(room_keys(2))
end
if r.draws ~= ARGV[4] then return 2 end
if r.n ~= n or r.per ~= per or r.pass ~= tonumber(ARGV[3]) or tonumber(r.from) ~= from then
  local base, since = r.base, ''
  if r.since then
    -- The next place keeps its moment, unless an interval of the new rate from now is sooner.
    base = served(r)
    local places = base - r.base
    local rest = places % r.n
    local next_at = r.since + (places - rest) / r.n * r.per + math.ceil(rest * r.per / r.n)
    since = int(math.max(math.min(math.max(next_at, now), now + math.ceil(per / n)), from or 0))
  end
  redis.call('HSET', r.row, 'n', ARGV[1], 'u', ARGV[2], 'p', ARGV[3], 'f', ARGV[5], 'b', int(base), 's', since)
  r = room_keys(2)
end
return room_state(r)
