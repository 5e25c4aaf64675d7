-- Requeues dead letters, due at once.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      all: 0 or 1; 1 for all, 0 for the letters listed
-- ARGV[3..]    for each letter, 0 to 1,000 of them, in order:
--                id: name
--
-- {requeued, kept}  kept: the queue is full, or a task has the id
-- AGAIN             more are left: send the call again
--
-- flags: allow-oom
-- include: now
-- include: put
-- include: once
local PAGE = 500
local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
-- While pages are left, the stored answer has a third part: the last id of the latest page.
local answer = remembered(once) or { 0, 0, '' }
if not answer[3] then return answer end
if reap(q) then return AGAIN end
local ids
if ARGV[2] == '1' then
  local after = answer[3] == '' and '-' or '(' .. answer[3]
  ids = redis.call('ZRANGEBYLEX', q.dead_ids, after, '+', 'LIMIT', '0', PAGE)
  answer[3] = #ids == PAGE and ids[PAGE] or nil
else
  ids = {}
  for at = 3, #ARGV do
    table.insert(ids, ARGV[at])
  end
  answer[3] = nil
end
for _, id in ipairs(ids) do
  local letter = redis.call('HGET', q.dead, id)
  if letter then
    if is_full(q) or read(q.records, id) then
      answer[2] = answer[2] + 1
    else
      local _, _, max, byte, length, head = struct.unpack('>I7I2I2I1I2', letter)
      head = head + length
      if byte >= PAST_BEFORE then
        length, head = struct.unpack('>I2', letter, head)
        byte, head = byte - PAST_BEFORE, head + length
      end
      local body = string.sub(letter, head)
      local priority, key = line_of(byte, body, 1)
      redis.call('HDEL', q.dead, id)
      redis.call('ZREM', q.dead_ids, id)
      local of = terms(now, priority, KEEP, 0, max, key)
      of.as = events.dead_requeued
      put(q, id, of, body, false)
      answer[1] = answer[1] + 1
    end
  end
end
finish(q)
remember(once, answer)
if answer[3] then return AGAIN end
return answer
