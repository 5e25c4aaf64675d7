-- Registers a process for one notification of the sale's next event.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    inbox: 16 hexadecimal digits
-- ARGV[3]    after: 0 to 2^53 - 1; the latest event that the process knows
--
-- 1  registered
-- 0  another event is the latest: read the events now
--
-- flags: allow-oom
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if s.seq ~= tonumber(ARGV[3]) then return 0 end
-- The latest 64 processes are kept; the others find out by polling.
local kept = s.listeners or ''
if not string.find(kept, ARGV[2], 1, true) then
  redis.call('HSET', s.row, 'listeners', string.sub(kept, -16 * 63) .. ARGV[2])
end
return 1
