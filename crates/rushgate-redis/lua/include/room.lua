-- A sale's waiting room. Its two keys, in this order:
--   room     HASH  rules and counters, such as j, the buyers who joined, and a, those who were admitted
--   tickets  HASH  buyer -> serial(6) until(7): the end of the buyer's admission token, 0 before admission
-- The keys have the tag of the sale's home. After a draw, the caller computes a buyer's place.
--
-- internals:
--   room  n and u: n places are served every u µs; p validity of an admission token, µs; w 1 if the order is drawn; f
--         earliest admission ('' for none); o when the room was opened; b places served before s; s when the next place
--         is served ('' before a draw); j buyers who joined; a buyers who were admitted; k the draw's secret (32); c its
--         SHA-256 (32); z when the entry was closed for the draw; e how many take part in the draw ('' until the entry is
--         closed); t the beacon ('' before the draw)
-- include: now
local TICKET = '>I6I7'

local function room_keys(first)
  local r = { row = KEYS[first], tickets = KEYS[first + 1] }
  local row = redis.call('HMGET', r.row, 'n', 'u', 'p', 'w', 'f', 'o', 'b', 's', 'j', 'a', 'k', 'c', 'e', 't',
    'z')
  r.is_there = row[1] ~= false
  r.n, r.per, r.pass, r.draws, r.from = tonumber(row[1]), tonumber(row[2]), tonumber(row[3]), row[4], row[5]
  r.opened, r.base, r.since, r.joined, r.admitted = row[6], tonumber(row[7]), tonumber(row[8]), tonumber(row[9]), row[10]
  r.secret, r.commitment, r.entrants, r.beacon = row[11], row[12], row[13], row[14]
  r.closed = row[15] or ''
  return r
end

-- How many places could be served by now, however many buyers have joined.
local function reach(r)
  if not r.since then return 0 end
  if now < r.since then return r.base end
  local elapsed = now - r.since
  local rest = elapsed % r.per
  return r.base + 1 + math.floor(rest * r.n / r.per) + (elapsed - rest) / r.per * r.n
end

local function served(r)
  return math.min(reach(r), r.joined)
end

local function room_state(r)
  return {
    r.n, r.per, r.pass, r.draws, r.from, r.opened, r.base, r.since or '', r.joined, served(r), r.admitted,
    r.draws == '1' and r.commitment or '', r.closed, r.entrants, r.beacon ~= '' and r.secret or '', r.beacon, now,
  }
end

local function read_ticket(r, buyer)
  local packed = redis.call('HGET', r.tickets, buyer)
  if packed then return struct.unpack(TICKET, packed) end
end
