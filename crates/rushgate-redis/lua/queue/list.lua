-- Lists live tasks, or the tasks in one state, a page at a time.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     state: scheduled, ready, leased, blocked, done or ''; '' for all live tasks
-- ARGV[2]     prefix: text of at most 200 bytes; only ids that begin with it
-- ARGV[3]     at most: 1 to 1,000
-- ARGV[4]     position: 1 to 65,536 bytes or ''; '' for the first page, and otherwise from the answer before
--
-- {now, position, id, record, run or '', moment, ...}  as rushgate_1_queue_tasks returns tasks
--   position: of the next page; '' for none. A page may be short or empty although more follow
--
-- The error `CURSOR` for a position of another state.
--
-- flags: allow-oom
-- include: now
-- include: look

-- The most entries that one call looks at, and how many it reads at a time.
local LOOKED_MAX, STEP = 1000, 20
-- Records of this size together are the last of a page.
local BYTES_MAX = 1048576
-- Up to this number, live tasks are listed by id. Redis may keep such a hash as a listpack, which HSCAN reads at once.
local SMALL_MAX = 512
-- Kinds of positions among all live tasks: behind an id, or a cursor of HSCAN and the ids that it has listed already.
local BY_ID, SCAN = 'I', 'S'
local FOREIGN = { err = 'CURSOR is not of this listing; pass the next of its previous page' }

local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local state, prefix, most, position = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local answer, n, looked, bytes = { now, '' }, 0, 0, 0

-- How many entries the call may read next.
local function room()
  return bytes < BYTES_MAX and math.max(math.min(STEP, most - n, LOOKED_MAX - looked), 0) or 0
end

local function has_prefix(id)
  return string.sub(id, 1, #prefix) == prefix
end

local function show(id, record, run, moment)
  n, bytes = n + 1, bytes + #record + #run
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = id, record, run, moment
end

-- Shows a live task, unless it is to be blocked and is not.
local function show_live(id)
  local record, run = read(q.records, id), read(q.runs, id)
  local moment = moment_shown(q, id, record, run)
  if state ~= 'blocked' or moment == '' then show(id, record, run or '', moment) end
end

-- Whether one text comes before another by its bytes: Lua compares as the locale of the server does.
local function precedes(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = string.byte(one, at), string.byte(other, at)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- The same for ids, in the order of the locale, which takes less time.
local function is_less(one, other)
  if one < other then return true end
  return not (other < one) and precedes(one, other)
end

local function list_by_id(after)
  local ids = {}
  for _, id in ipairs(redis.call('HKEYS', q.records.key)) do
    if is_less(after, id) and has_prefix(id) then ids[#ids + 1] = id end
  end
  table.sort(ids, is_less)
  local upto = 0
  while upto < #ids do
    local read_n = room()
    if read_n == 0 then return BY_ID .. ids[upto] end
    local some = { unpack(ids, upto + 1, math.min(upto + read_n, #ids)) }
    fetch_tasks(q, some)
    for _, id in ipairs(some) do
      show_live(id)
    end
    upto, looked = upto + #some, looked + #some
  end
  return ''
end

local function scan(cursor, listed)
  local pattern = string.gsub(prefix, '[%*%?%[%]%^\\-]', '\\%0') .. '*'
  repeat
    if room() == 0 then return SCAN .. cursor .. listed end
    local before, ids = {}, {}
    for id in string.gmatch(listed, ' ([^ ]+)') do
      before[id] = true
    end
    -- Redis may return some more than it is asked for.
    local count = math.min(room(), math.ceil((most - n) / 2))
    local found = redis.call('HSCAN', q.records.key, cursor, 'MATCH', pattern, 'COUNT', count)
    local fields = found[2]
    for at = 1, #fields, 2 do
      local id = fields[at]
      if not before[id] then
        ids[#ids + 1], q.records.values[id] = id, fields[at + 1]
      end
    end
    looked = looked + math.max(count, #fields / 2)
    fetch(q.runs, ids)
    for _, id in ipairs(ids) do
      if n == most then return SCAN .. cursor .. listed end
      show_live(id)
      listed = listed .. ' ' .. id
    end
    cursor, listed = found[1], ''
  until cursor == '0'
  return ''
end

local function list_live()
  local key, after = q.records.key, string.match(position, '^I(.+)$')
  local cursor, listed = string.match(position, '^S(%d+)(.*)$')
  if position ~= '' and not after and not (cursor and #cursor < 20) then return nil end
  if cursor then return scan(cursor, listed) end
  local is_small = redis.call('HLEN', key) <= SMALL_MAX or redis.call('OBJECT', 'ENCODING', key) == 'listpack'
  -- If the queue has grown meanwhile, the listing begins again.
  if is_small then return list_by_id(after or '') end
  return scan('0', '')
end

-- Sets of the tasks in a state, in the order in which they are listed. Each has a number; the ranks between which it has
-- the state, from `first` to before `last`; and the length of what is before the id in a member.
local function sets_of_state()
  local sets = {}
  local function add_set(number, key, prefix_bytes, first, last)
    sets[#sets + 1] = {
      number = number, key = key, prefix_bytes = prefix_bytes, first = first, last = last or redis.call('ZCARD', key),
    }
  end
  if state == 'leased' then
    add_set(0, q.leases.key, LEASE_BYTES, 0)
  elseif state == 'done' then
    if q.keep_n then add_set(0, q.done_ids, 0, finished.count(q, now - q.keep_us)) end
  elseif state == 'blocked' then
    add_set(0, q.blocked, nil, 0)
    add_set(1, q.held, 0, 0)
  else
    for priority = 0, 9 do
      if is_used(q, priority) then
        local key = waiting(q, priority).key
        local due = redis.call('ZCOUNT', key, '-inf', now_text())
        if state == 'ready' then
          add_set(2 * priority, key, PLACE_BYTES, 0, due)
        else
          add_set(2 * priority, key, PLACE_BYTES, due)
        end
      end
      if priority == USUAL and state == 'ready' and is_used(q, AT_ONCE) then
        add_set(2 * priority + 1, q.at_once, PLACE_BYTES, 0, at_once.length(q))
        sets[#sets].is_list = true
      end
    end
  end
  return sets
end

-- Reads members of a set by rank, and their scores. The members of the list are in order too.
local function read_members(set, first, read_n)
  local members, scores = {}, {}
  if set.is_list then return redis.call('LRANGE', set.key, first, first + read_n - 1), scores end
  local found = redis.call('ZRANGE', set.key, first, first + read_n - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    members[#members + 1], scores[#members + 1] = found[at], tonumber(found[at + 1])
  end
  return members, scores
end

-- The rank of the first member behind a score and a member, which may be gone.
local function rank_behind(set, score, member)
  local from, to = set.first, set.last
  while from < to do
    local middle = math.floor((from + to) / 2)
    local members, scores = read_members(set, middle, 1)
    local its_score = scores[1] or score
    if its_score > score or its_score == score and precedes(member, members[1]) then
      to = middle
    else
      from = middle + 1
    end
  end
  return from
end

local function id_of(set, member)
  -- A member of `blocked` begins with a key of any length, and a byte 0.
  local prefix_bytes = set.prefix_bytes or string.find(member, '%z') + 1 + 2 * MOMENT_BYTES
  return string.sub(member, prefix_bytes + 1)
end

local function show_members(set, members)
  local ids, of_ids = {}, {}
  for _, member in ipairs(members) do
    local id = id_of(set, member)
    if has_prefix(id) then ids[#ids + 1], of_ids[#ids + 1] = id, member end
  end
  if not ids[1] then return end
  if state == 'done' then
    for at, kept in ipairs(redis.call('HMGET', q.done, unpack(ids))) do
      show(ids[at], '', kept, 0)
    end
    return
  end
  fetch_tasks(q, ids)
  for at, id in ipairs(ids) do
    local record = read(q.records, id)
    local is_here = not set.is_list or at_once.is_live(of_ids[at], record, read(q.runs, id))
      and struct.unpack('>I7', record, FIRST_FROM) <= now
    if is_here then show_live(id) end
  end
end

local function list_state()
  local number, score, member = 0, nil, nil
  if position ~= '' then
    if #position <= 1 + MOMENT_BYTES then return nil end
    number, score, member = string.byte(position), (struct.unpack('>I7', position, 2)), string.sub(position, 2 + MOMENT_BYTES)
  end
  for _, set in ipairs(sets_of_state()) do
    local rank = set.first
    if score and set.number == number then rank = rank_behind(set, score, member) end
    while set.number >= number and rank < set.last do
      local read_n = math.min(room(), set.last - rank)
      if read_n == 0 then return position end
      local members, scores = read_members(set, rank, read_n)
      show_members(set, members)
      rank, looked = rank + read_n, looked + read_n
      position = struct.pack('>I1I7', set.number, scores[#members] or 0) .. members[#members]
    end
  end
  return ''
end

local next_position
if state == '' then next_position = list_live() else next_position = list_state() end
if not next_position then return FOREIGN end
answer[2] = next_position
return answer
