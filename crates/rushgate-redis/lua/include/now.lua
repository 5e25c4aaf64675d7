-- The store's clock, read once a script. Numbers leave Lua through `int`: `tostring` loses digits above 10^14.
local function int(number)
  return string.format('%.0f', number)
end
local now
-- at each call:
local clock = redis.call('TIME')
now = clock[1] * 1000000 + clock[2]
