-- The schedules of a queue. Their three keys, in this order:
--   schedules         HASH  id -> revision(6) paused(1) next(7) previous(7) priority(1) max attempts(2) recurrence's
--                           length(2) recurrence body. Next and previous are 0 for none
--   schedule_ids      ZSET  id -> 0
--   schedule_moments  ZSET  id -> next, of schedules that are not paused
--
-- internals:
-- The functions do not read the recurrence. The revision comes from the queue's counter.
local SCHEDULE, STATE, TEMPLATE, TEMPLATE_AT = '>I6I1I7I7I1I2I2', '>I6I1I7I7', '>I1I2I2', 22

local function schedule_keys(first)
  return { schedules = KEYS[first], ids = KEYS[first + 1], moments = KEYS[first + 2] }
end

local function read_schedule(of, id)
  local packed = redis.call('HGET', of.schedules, id)
  if not packed then return nil end
  local s = { id = id, template = string.sub(packed, TEMPLATE_AT) }
  local length, at
  s.revision, s.paused, s.next, s.previous, s.priority, s.max, length, at = struct.unpack(SCHEDULE, packed)
  s.recurrence, s.body = string.sub(packed, at, at + length - 1), string.sub(packed, at + length)
  return s
end

local function store_schedule(of, s)
  redis.call('HSET', of.schedules, s.id, struct.pack(STATE, s.revision, s.paused, s.next, s.previous) .. s.template)
  if s.paused == 0 and s.next > 0 then
    redis.call('ZADD', of.moments, int(s.next), s.id)
  else
    redis.call('ZREM', of.moments, s.id)
  end
end

local function next_revision(q)
  q.revision, q.turn, q.changed = q.revision + 1, nil, true
  return q.revision
end
