-- Sets the limits of a queue.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     bound: 0 to 2^53 - 1 or ''; capacity: the most tasks in the queue, '' for no limit
-- ARGV[2]     concurrency: 1 to 1,000,000 or ''; the most leased tasks, '' for no limit
-- ARGV[3]     rate: 1 to 10,000 or ''; sliding window: the most tasks that start in the time below, '' for no limit
-- ARGV[4]     time: 1,000 to 34,560,000,000,000 or ''; of the rate, µs
-- ARGV[5]     concurrency per key: 1 to 1,000,000 or ''; the same per key; at most 1 if first in, first out
-- ARGV[6]     rate per key: 1 to 10,000 or ''; likewise
-- ARGV[7]     time per key: 1,000 to 34,560,000,000,000 or ''; likewise
-- ARGV[8]     first in, first out: 0 or 1; 1 to run one task of a key at a time; a failed task keeps its place
-- ARGV[9]     age kept: 1,000 to 34,560,000,000,000 or ''; retention of finished tasks, µs; '' to keep none
-- ARGV[10]    count kept: 1 to 1,000,000 or ''; the most finished tasks that are kept
-- ARGV[11]    overflow: 0 to 2; when the queue is full: 0 refuse the new task, 1 drop it, 2 drop the oldest task
-- ARGV[12]    events: 1 to 100,000 or ''; how many of the latest events are kept, '' for none
--
-- 1
-- AGAIN  more is left to delete or to index: send the call again
-- include: now
-- include: queue
if (ARGV[9] == '') ~= (ARGV[10] == '') then
  return { err = 'INVALID the retention age and the retention count must be set together' }
end
if ARGV[8] == '1' and ARGV[5] ~= '' and ARGV[5] ~= '1' then
  return wrong.argument(5, 'concurrency per key', "1 or '' if the tasks of a key are first in, first out")
end
-- Waiting tasks that one call reads in order to index them.
local PAGE = 500

-- Continues to index waiting tasks by age. True if more are left.
local function continue_by_age(q)
  local from = redis.call('HGET', q.meta, 'age_cursor')
  if not from then return false end
  write_back_queue(q)
  local page = redis.call('HSCAN', q.records.key, from, 'COUNT', PAGE)
  local found = page[2]
  for at = 1, #found, 2 do
    local id, record = found[at], found[at + 1]
    local t = task_of(id, record, redis.call('HGET', q.runs.key, id))
    if not has(t, LEASED) then index(q, id, record) end
  end
  if page[1] == '0' then redis.call('HDEL', q.meta, 'age_cursor') else redis.call('HSET', q.meta, 'age_cursor', page[1]) end
  return page[1] ~= '0'
end

-- Deletes events beyond the number to keep. True if more are left to delete.
local function forget_events(q, most)
  local first, latest = events.range(q)
  local wanted, fields = math.max(first, latest - most + 1), {}
  local to = math.min(wanted, first + FORGOTTEN_MAX)
  for number = first, to - 1 do
    fields[#fields + 1] = int(number)
  end
  in_chunks('HDEL', q.events, fields)
  redis.call('HSET', q.meta, 'first_event', int(to))
  return to < wanted
end

local q = queue_keys(1)
touch(q)
if reap(q) then return AGAIN end

-- Events of leases that expired before this call follow the old setting.
events.write(q)
if q.events_n ~= tonumber(ARGV[12]) and forget_events(q, tonumber(ARGV[12]) or 0) then
  finish(q)
  return AGAIN
end

-- Delete first what the old retention no longer covers, so that the new one does not bring it back.
local told = q.keep_n
local more = told and finished.forget(q, FORGOTTEN_MAX)
if not more then
  q.keep_us, q.keep_n = tonumber(ARGV[9]), tonumber(ARGV[10])
  more = finished.forget(q, FORGOTTEN_MAX)
end
if more then
  finish(q)
  return AGAIN
end

-- From this call on, new waiting tasks are indexed by age. Existing ones follow page by page.
local by_age = tonumber(ARGV[11]) == DROP_OLDEST
if by_age and q.overflow ~= DROP_OLDEST then
  redis.call('UNLINK', q.by_age)
  redis.call('HSET', q.meta, 'age_cursor', 0)
end

local words = { ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12] }
for at, word in ipairs(words) do
  words[at] = word == '' and '-' or word
end
local text = table.concat(words, ' ')
local old_rate = { q.rate_n, q.rate_us }
local old_key = { n = q.key_rate_n, us = q.key_rate_us, most = q.key_concurrency }
read_limits(q, text)
redis.call('HSET', q.meta, 'capacity', ARGV[1], 'limits', text)
-- Without the field, calls on a queue without limits have nothing to parse.
if text == '- - - - - - 0 - - 0 -' then redis.call('HDEL', q.meta, 'limits') end

-- A rate that changes starts with an empty history.
local starts = hash_of(q, 'starts')
if old_rate[1] ~= q.rate_n or old_rate[2] ~= q.rate_us then set_field(starts, '', false) end
local same_rate = old_key.n == q.key_rate_n and old_key.us == q.key_rate_us
if not same_rate then
  for _, key in ipairs(redis.call('ZRANGE', q.starts_until, 0, -1)) do
    set_field(starts, key, false)
  end
  redis.call('DEL', q.starts_until)
end
if not same_rate or old_key.most ~= q.key_concurrency then
  local groups = hash_of(q, 'groups')
  write_back(groups)
  for _, name in ipairs(redis.call('HKEYS', groups.key)) do
    local key, priority = string.match(name, '^(.+)%z(.)$')
    touch_line(q, { key = key, priority = string.byte(priority) })
  end
  seat_touched(q, true)
end
if told and not q.keep_n then
  -- Without a retention there are no more notifications, so all watchers are notified now.
  local watchers = hash_of(q, 'watchers')
  write_back(watchers)
  for _, id in ipairs(redis.call('HKEYS', watchers.key)) do
    if id ~= '' then events.tell(q, id, 'T' .. id) end
  end
end
if by_age then
  more = continue_by_age(q)
else
  redis.call('HDEL', q.meta, 'age_cursor')
  redis.call('UNLINK', q.by_age)
end
q.woken = math.max(q.woken, WOKEN_MAX)
finish(q)
return more and AGAIN or 1
