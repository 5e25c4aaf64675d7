-- Deletes dead letters.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      all: 0 or 1; 1 for all, 0 for the letters listed
-- ARGV[3..]    for each letter, 0 to 1,000 of them:
--                id: name
--
-- {deleted}  how many
-- AGAIN      more are left: send the call again
--
-- flags: allow-oom
-- include: now
-- include: queue
-- include: once
local PAGE = 500
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
-- While pages are left, the stored answer has a second part.
local answer = remembered(once) or { 0, 1 }
if not answer[2] then return answer end
if reap(q) then return AGAIN end
local ids
if ARGV[2] == '1' then
  ids = redis.call('ZRANGEBYLEX', q.dead_ids, '-', '+', 'LIMIT', '0', PAGE)
  answer[2] = #ids == PAGE and 1 or nil
else
  ids = {}
  for at = 3, #ARGV do
    table.insert(ids, ARGV[at])
  end
  answer[2] = nil
end
if #ids > 0 then
  local seen = {}
  for _, id in ipairs((q.linked or q.events_n) and ids or {}) do
    if not seen[id] and redis.call('HEXISTS', q.dead, id) == 1 then
      seen[id] = true
      events.note(q, now, id, events.dead_deleted)
      if not read(q.records, id) then has_ended(q, id, now, END_DELETED, '') end
    end
  end
  redis.call('HDEL', q.dead, unpack(ids))
  answer[1] = answer[1] + redis.call('ZREM', q.dead_ids, unpack(ids))
end
finish(q)
remember(once, answer)
if answer[2] then return AGAIN end
return answer
