-- The uniqueness windows of a queue: periods in which an id is unique, whether its task is live or not. One key:
--   unique  ZSET  id -> end of its window
--
-- internals:
-- Past windows are deleted as new ones begin. The key expires an hour after its last window.
-- include: draft
-- include: now
-- Past windows that are deleted for each new one: more than one, so that they become fewer.
local OVER_FOR_ONE = 2
local LEFT_MS = 3600000

-- The end of an id's window, if it has one.
local function unique_until(key, id)
  local till = tonumber(redis.call('ZSCORE', key, id) or 0)
  return till > now and till
end

-- Prefetches the windows of ids that will be enqueued. The field `unique_until` of meta says whether there is any.
local function fetch_unique(q, key, ids)
  q.unique, q.periods, q.periods_till = {}, sorted_set(key), q.unique_till
  if q.unique_till <= now then return end
  for at, till in ipairs(redis.call('ZMSCORE', key, unpack(ids))) do
    till = tonumber(till or 0)
    if till > now then q.unique[ids[at]] = till end
  end
end

-- A new window never ends before one that the id already has.
local function begin_period(q, id, till)
  till = math.max(till, q.unique[id] or 0)
  q.unique[id], q.periods_till = till, math.max(q.periods_till, till)
  add_at(q.periods, till, id)
end

local function write_periods(q)
  local of, begun = q.periods, q.periods.n / 2
  if begun == 0 then return end
  write_back(of)
  local over = math.min(redis.call('ZCOUNT', of.key, '-inf', now_text()), OVER_FOR_ONE * begun)
  if over > 0 then redis.call('ZREMRANGEBYRANK', of.key, 0, over - 1) end
  if q.periods_till > q.unique_till then redis.call('HSET', q.meta, 'unique_until', int(q.periods_till)) end
  -- Set every time, because the set may have been deleted and created in the meantime.
  redis.call('PEXPIRE', of.key, int(math.ceil((q.periods_till - now) / 1000) + LEFT_MS))
end
