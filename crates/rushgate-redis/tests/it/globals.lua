-- The names of globals that the library sets, or reads although the server has none of that name: 'line: name' each.
-- They are in its bytecode: https://www.lua.org/source/5.1/ldump.c.html. The library is compiled here, and does not run.
local code, at = string.dump(loadstring((ARGV[1]:gsub('^#![^\n]*', '')))), 13
local GETGLOBAL, SETGLOBAL, LINE = 5, 7, 4
local wrong = {}

local function int()
  local n
  n, at = struct.unpack('<I4', code, at)
  return n
end

local function text()
  local size
  size, at = struct.unpack('<I8', code, at)
  at = at + size
  return code:sub(at - size, at - 2)
end

local function exists(name)
  if name == 'KEYS' or name == 'ARGV' then return false end
  local is_read, value = pcall(loadstring('return ' .. name))
  return is_read and value ~= nil
end

local function read_function()
  text()
  at = at + 2 * LINE + 4
  local steps, names, lines = {}, {}, {}
  for n = 1, int() do steps[n] = int() end
  for n = 0, int() - 1 do
    local kind = code:byte(at)
    at = at + 1
    if kind == 1 then at = at + 1 elseif kind == 3 then at = at + 8 elseif kind == 4 then names[n] = text() end
  end
  for _ = 1, int() do read_function() end
  for n = 1, int() do lines[n] = int() end
  for _ = 1, int() do
    text()
    at = at + 2 * LINE
  end
  for _ = 1, int() do text() end
  for n, step in ipairs(steps) do
    local verb, name = step % 64, names[math.floor(step / 2 ^ 14)]
    if verb == SETGLOBAL or verb == GETGLOBAL and not exists(name) then wrong[#wrong + 1] = lines[n] .. ': ' .. name end
  end
end

read_function()
return wrong
