-- Dependencies of tasks that are enqueued.
-- include: queue

-- What is known of an id: whether it is known at all; and of a task that has ended when, how, and its result or error.
local function state_of(q, id)
  if read(q.records, id) then return true end
  local kept, letter = finished.entry(q, id), redis.call('HGET', q.dead, id)
  if kept and letter and struct.unpack('>I7', letter) > struct.unpack('>I7', kept) then kept = nil end
  if kept then
    local at, how, length, from = struct.unpack('>I7I1I4', kept)
    return true, at, how, string.sub(kept, from, from + length - 1)
  elseif letter then
    local at, _, _, _, length, from = struct.unpack('>I7I2I2I1I2', letter)
    return true, at, END_DEAD, cut_error(string.sub(letter, from, from + length - 1))
  end
  return false
end

-- Links a task to its dependencies. True if it must wait for them.
local function link_to_others(q, id, place, of)
  local dependents, dependencies, policy, held, failed = {}, {}, of.if_dead, of.open, {}
  local function note(members, member)
    members[#members + 1], members[#members + 2] = 0, member
  end
  if of.open then note(dependencies, place .. policy) end
  for _, other in ipairs(of.others) do
    local is_known, at, how, what = state_of(q, other)
    if how and (how < END_CANCELLED or policy == '2') then
      keep_result(q, place .. other, at, how, what)
    else
      held = true
      note(dependents, other .. '\0' .. policy .. place .. id)
      note(dependencies, place .. policy .. other)
      -- A dependency that is unknown now was dropped to make room for this task.
      if how or not is_known then failed[#failed + 1] = { other, how or END_DROPPED, what or '' } end
    end
  end
  in_chunks('ZADD', q.dependents, dependents)
  in_chunks('ZADD', q.dependencies, dependencies)
  if not q.linked then redis.call('HSET', q.meta, 'has_dependencies', 1) end
  q.linked = true
  for _, one in ipairs(failed) do
    has_ended(q, one[1], now, one[2], one[3])
  end
  return held
end

-- The place of an open batch, and its if-dead policy; nil if the task is not one.
local function open_place(q, id)
  local record = q.linked and read(q.records, id)
  if not record then return nil end
  local place = string.sub(record, 1, PLACE_BYTES)
  local first = beginning(q.dependencies, place, 1)[1]
  if first and #first == PLACE_BYTES + 1 then return place, string.sub(first, -1) end
end

-- Why a task cannot have the dependencies or the batch in its terms, and the id concerned: 0 unknown, 1 not open, 2
-- taken.
local function refusal(q, id, of)
  local t = load(q, id)
  if of.hold and t and has(t, CANCEL_ASKED) then return 2, id end
  if of.whole then
    if not open_place(q, of.whole) then return 1, of.whole end
    if t and t.held then return 2, id end
  end
  if t or not of.hold then return nil end
  -- Others already wait for this id: its own dependencies could lead back to it.
  if q.linked and beginning(q.dependents, id .. '\0', 1)[1] then return 2, id end
  for _, other in ipairs(of.others) do
    if not state_of(q, other) then return 0, other end
  end
end

-- Adds a member to a batch, unless the batch is gone.
local function become_part(q, part, whole)
  local place, policy = open_place(q, whole)
  if not place then return end
  redis.call('ZADD', q.dependents, 0, part .. '\0' .. policy .. place .. whole)
  redis.call('ZADD', q.dependencies, 0, place .. policy .. part)
  -- The id may have been a member before, under a record that has ended.
  redis.call('ZREM', q.result_ids, place .. part)
  redis.call('HDEL', q.results, place .. part)
end
