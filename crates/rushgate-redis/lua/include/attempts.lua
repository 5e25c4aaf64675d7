-- The attempts at a sale, as its servers count them. Their three keys, in this order:
--   attempts         HASH  answer -> sum over all servers
--   attempts_of      HASH  server(8) answer -> count of that server
--   attempt_servers  ZSET  server(8) -> when its count grew last
local function attempt_keys(first) return KEYS[first], KEYS[first + 1], KEYS[first + 2] end
