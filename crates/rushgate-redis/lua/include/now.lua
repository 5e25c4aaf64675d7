-- The store's clock, read once a script. Numbers leave Lua through `int`: `tostring` loses digits above 10^14. Two
-- halves that fit into any integer are made texts of in less time than one floating point number, and the server takes
-- as long for each that a command is given.
local HALF = 1000000000
local function int(number)
  if number < HALF then return string.format('%d', number) end
  local low = number % HALF
  return string.format('%d%09d', (number - low) / HALF, low)
end
local now
-- at each call:
local clock = redis.call('TIME')
now = clock[1] * 1000000 + clock[2]
