-- Buffers changes to a hash or sorted set and flushes them with few variadic commands, preserving their order. A hash
-- also caches the fields it reads; `false` stands for an absent field.

-- The most members per command.
local CHUNK = 1000
-- Redis stores a small hash or sorted set as a listpack and scans it for every member added. Before a flush of more
-- than MANY arguments, a temporary member too long for a listpack converts it to a table.
local MANY = 32
local LONG = '01234567890123456789012345678901234567890123456789012345678901234'

-- Runs a command for many members, in chunks. For HSET and ZADD, `members` alternates fields and values, or scores and
-- members.
local function in_chunks(command, key, members)
  for from = 1, #members, CHUNK do
    redis.call(command, key, unpack(members, from, math.min(from + CHUNK - 1, #members)))
  end
end

-- Every `width`-th argument, from `first` on.
local function arguments(first, width)
  local all, some, n = ARGV, {}, 0
  for at = first, #all, width do
    n = n + 1
    some[n] = all[at]
  end
  return some
end

-- All fields are set at once, because a Lua table is allocated again when it grows.
local HASH = { put = 'HSET', take = 'HDEL', before = '', long = '' }
local SORTED_SET = { put = 'ZADD', take = 'ZREM', before = 0, long = LONG }

local function hash(key)
  return { key = key, kind = HASH, values = {}, added = false, n = 0, taken = false, taken_n = 0 }
end

local function sorted_set(key)
  return { key = key, kind = SORTED_SET, texts = {}, added = false, n = 0, taken = false, taken_n = 0 }
end

local function write_back(of)
  local kind = of.kind
  if of.n > 0 then
    local many = of.n > MANY
    if many then redis.call(kind.put, of.key, kind.before, LONG) end
    in_chunks(kind.put, of.key, of.added)
    if many then redis.call(kind.take, of.key, kind.long) end
    of.added, of.n = false, 0
  end
  if of.taken then
    in_chunks(kind.take, of.key, of.taken)
    of.taken, of.taken_n = false, 0
  end
end

-- Buffers a field and its value (hash), or a score and its member (sorted set).
local function add(of, first, second)
  if of.taken then write_back(of) end
  local added, n = of.added, of.n
  if added then added[n + 1], added[n + 2] = first, second else of.added = { first, second } end
  of.n = n + 2
end

-- Buffers fields and values, or scores and members. The list becomes the buffer's own.
local function add_all(of, list)
  write_back(of)
  of.added, of.n = list, #list
end

-- Buffers a member whose score is a moment. Formatting a number is slow and many members share a moment, so texts are
-- cached.
local function add_at(of, moment, member)
  local text = of.texts[moment]
  if not text then
    text = int(moment)
    of.texts[moment] = text
  end
  add(of, text, member)
end

local function take_out(of, member)
  if of.n > 0 then write_back(of) end
  local taken, n = of.taken, of.taken_n + 1
  if taken then taken[n] = member else of.taken = { member } end
  of.taken_n = n
end

local function set_field(of, field, value)
  of.values[field] = value
  if value then add(of, field, value) else take_out(of, field) end
end

local function read(of, field)
  local value = of.values[field]
  if value == nil then
    value = redis.call('HGET', of.key, field)
    of.values[field] = value
  end
  return value
end

-- Prefetches fields of a hash with one command.
local function fetch(of, fields)
  if #fields == 0 then return end
  write_back(of)
  local values, found = of.values, redis.call('HMGET', of.key, unpack(fields))
  for at = 1, #fields do
    values[fields[at]] = found[at]
  end
end
