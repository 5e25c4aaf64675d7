-- Returns what a task waits for, and how far its dependencies are.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     id: name
--
-- {open, if dead, left, over, dead, id, is dead, error, ...}
--   open: 1 for an open batch; if dead: 0 keep waiting, 1 fail, 2 run; left: how many it still waits for
--   over: how many have finished; dead: how many of the first 1,000 left are dead
--   then up to five of those left, dead ones first: the id, 1 if it is dead, and its error, cut to 200 bytes
-- {}  the task is not live, or never waited for others
--
-- flags: allow-oom
-- include: now
-- include: wait
local LOOKED_AT, SHOWN = 1000, 5
local q = queue_keys(1)
if reap(q) then return AGAIN end
finish(q)
local record = q.linked and read(q.records, ARGV[1])
if not record then return {} end
local place = string.sub(record, 1, PLACE_BYTES)
local function count(set)
  return redis.call('ZLEXCOUNT', set, '[' .. place, '(' .. place .. '\255')
end
local open = open_place(q, ARGV[1]) and 1 or 0
local left, over = count(q.dependencies) - open, count(q.result_ids)
if open + left + over == 0 then return {} end
local policy, ids, dead, live, n = 0, {}, {}, {}, 0
for at, member in ipairs(beginning(q.dependencies, place, LOOKED_AT + open)) do
  policy = tonumber(string.sub(member, PLACE_BYTES + 1, PLACE_BYTES + 1))
  if at > open then ids[#ids + 1] = string.sub(member, PLACE_BYTES + 2) end
end
local scores = #ids > 0 and redis.call('ZMSCORE', q.dead_ids, unpack(ids)) or {}
for at, id in ipairs(ids) do
  local is_dead = scores[at] and not read(q.records, id)
  if is_dead then n = n + 1 end
  local group = is_dead and dead or live
  if #group < SHOWN then group[#group + 1] = id end
end
local answer = { open, policy, left, over, n }
for at = 1, math.min(#dead + #live, SHOWN) do
  local id, error = dead[at] or live[at - #dead], ''
  if dead[at] then
    local letter = redis.call('HGET', q.dead, id)
    local _, _, _, _, length, from = struct.unpack('>I7I2I2I1I2', letter)
    error = cut_error(string.sub(letter, from, from + length - 1))
  end
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = id, dead[at] and 1 or 0, error
end
return answer
