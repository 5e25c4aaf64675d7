-- The ids of a queue that are unique for a period, whether their tasks are live or not. One key:
--   unique  ZSET  id -> until; what is over is taken out when more comes in. It expires an hour after its last
-- include: draft
-- include: now
-- So many that are over are forgotten for each that begins: more than one, so that they become fewer.
local OVER_FOR_ONE = 2
local LEFT_MS = 3600000

-- Until when an id is unique, if it is.
local function unique_until(key, id)
  local till = tonumber(redis.call('ZSCORE', key, id) or 0)
  return till > now and till
end

-- Tasks with these ids are about to be put in. Whether any id is unique is known by the queue's own row.
local function fetch_unique(q, key, ids)
  q.unique, q.periods, q.periods_till = {}, sorted_set(key), q.unique_till
  if q.unique_till <= now then return end
  for at, till in ipairs(redis.call('ZMSCORE', key, unpack(ids))) do
    till = tonumber(till or 0)
    if till > now then q.unique[ids[at]] = till end
  end
end

-- A period never ends before one of the same id that runs already.
local function begin_period(q, id, till)
  till = math.max(till, q.unique[id] or 0)
  q.unique[id], q.periods_till = till, math.max(q.periods_till, till)
  add_at(q.periods, till, id)
end

local function write_periods(q)
  local of, begun = q.periods, q.periods.n / 2
  if begun == 0 then return end
  write_back(of)
  local over = math.min(redis.call('ZCOUNT', of.key, '-inf', int(now)), OVER_FOR_ONE * begun)
  if over > 0 then redis.call('ZREMRANGEBYRANK', of.key, 0, over - 1) end
  if q.periods_till > q.unique_till then redis.call('HSET', q.meta, 'i', int(q.periods_till)) end
  -- In any case: a set that was empty in between is another one.
  redis.call('PEXPIRE', of.key, int(math.ceil((q.periods_till - now) / 1000) + LEFT_MS))
end
