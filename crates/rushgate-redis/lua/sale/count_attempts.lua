-- Records how many attempts at a sale a server has answered since it started, by answer. Returns the sums over all servers,
-- also over those that have ended.
--
-- KEYS[1-3]  the attempts
-- ARGV[1]    server: 8 bytes; random, new at every start
-- ARGV[2..]  for each answer, 0 to 32 of them:
--              answer: name
--              count: 0 to 2^53 - 1
--
-- {answer, sum, ...}  in no order
--
-- flags: allow-oom
-- include: now
-- include: attempts
local ANSWERS_MAX, SERVERS_MAX = 64, 256
local totals, counted, servers = attempt_keys(1)
local server, is_counted = ARGV[1], false
for at = 2, #ARGV, 2 do
  local answer, count = ARGV[at], tonumber(ARGV[at + 1])
  local before = tonumber(redis.call('HGET', counted, server .. answer)) or 0
  local is_known = count <= before or redis.call('HLEN', totals) < ANSWERS_MAX or redis.call('HGET', totals, answer)
  if is_known and count > before then
    redis.call('HSET', counted, server .. answer, int(count))
    redis.call('HINCRBY', totals, answer, int(count - before))
    is_counted = true
  end
end
if is_counted then
  redis.call('ZADD', servers, now_text(), server)
  if redis.call('ZCARD', servers) > SERVERS_MAX then
    -- Its attempts stay in the sums.
    local oldest = redis.call('ZRANGE', servers, 0, 0)[1]
    for _, answer in ipairs(redis.call('HKEYS', totals)) do redis.call('HDEL', counted, oldest .. answer) end
    redis.call('ZREM', servers, oldest)
  end
end
return redis.call('HGETALL', totals)
