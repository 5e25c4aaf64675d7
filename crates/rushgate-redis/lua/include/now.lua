-- The server's clock, read once per script. Numbers become text through `int`, because `tostring` loses digits above
-- 10^14. Formatting two halves as integers takes less time than formatting a floating-point number, which Redis also
-- does for every number that is passed to a command.
local HALF = 1000000000
local function int(number)
  if number < HALF then return string.format('%d', number) end
  local low = number % HALF
  return string.format('%d%09d', (number - low) / HALF, low)
end
local now
-- The clock as text.
local text_of_now, moment_of_text
local function now_text()
  if moment_of_text ~= now then moment_of_text, text_of_now = now, int(now) end
  return text_of_now
end
-- at each call:
local clock = redis.call('TIME')
now = clock[1] * 1000000 + clock[2]
