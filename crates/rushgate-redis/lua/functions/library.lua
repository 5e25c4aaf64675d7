-- What the function library adds to the scripts. Each operation is registered as a function that first checks its keys
-- and arguments, because its caller may be written in any language. A refused call has changed nothing: the error
-- `INVALID` names the argument and what is wrong with it.
local KEYS, ARGV
local verbs = {}

-- Checks of arguments. Each takes the argument and its limits, and returns a true value if the argument is valid. For
-- numbers and names in JSON, which can be written in several ways, the value is what they mean.
local is = {}
local verb

-- The rest is in a block, because Lua allows 200 local names at a time.
do

local function is_tail(byte)
  return byte and byte >= 128 and byte < 192
end

-- The character at a byte, and its length; nil if it is not UTF-8.
local function character(text, at)
  local a, b, c, d = string.byte(text, at, at + 3)
  if a < 128 then
    return a, 1
  elseif a >= 194 and a < 224 and is_tail(b) then
    return (a - 192) * 64 + b - 128, 2
  elseif a >= 224 and a < 240 and is_tail(b) and is_tail(c) then
    local code = (a - 224) * 4096 + (b - 128) * 64 + c - 128
    if code >= 2048 and (code < 55296 or code > 57343) then return code, 3 end
  elseif a >= 240 and a < 245 and is_tail(b) and is_tail(c) and is_tail(d) then
    local code = (a - 240) * 262144 + (b - 128) * 4096 + (c - 128) * 64 + d - 128
    if code >= 65536 and code <= 1114111 then return code, 4 end
  end
end

local function is_control(code)
  return code < 32 or (code >= 127 and code < 160)
end

local SPACES = {
  [32] = true, [160] = true, [5760] = true, [8232] = true, [8233] = true, [8239] = true, [8287] = true, [12288] = true,
}
-- First and last of each range: the same characters as `INVISIBLE` in crates/rushgate-core/src/name.rs.
local INVISIBLE = {
  173, 173, 847, 847, 1564, 1564, 4447, 4448, 6068, 6069, 6155, 6159, 8203, 8207, 8234, 8238, 8288, 8303, 12644, 12644,
  64976, 65007, 65024, 65039, 65279, 65279, 65440, 65440, 65520, 65531, 113824, 113827, 119155, 119162, 917504, 921599,
}
local function is_invisible(code)
  for at = 1, code < 173 and 0 or #INVISIBLE, 2 do
    if code >= INVISIBLE[at] and code <= INVISIBLE[at + 1] then return true end
  end
end

local function is_not_for_names(code)
  return is_control(code) or SPACES[code] or (code >= 8192 and code <= 8202) or code == 123 or code == 125
    or is_invisible(code)
end

local function is_utf8(text, refused)
  local at = 1
  while at <= #text do
    local code, length = character(text, at)
    if not code or (refused and refused(code)) then return false end
    at = at + length
  end
  return true
end

function is.bytes(value, least, most)
  return #value >= least and #value <= most
end

function is.whole(value, least, most)
  local number = #value <= 20 and string.match(value, '^-?%d+$') and tonumber(value)
  return number and number >= least and number <= most and number
end

function is.hexadecimal(value, digits)
  return #value == digits and string.match(value, '^[0-9a-f]+$')
end

function is.name(value)
  if value == '' or value == '.' or value == '..' or #value > 200 then return false end
  return string.match(value, '^[!-z|~]+$') or is_utf8(value, is_not_for_names)
end

function is.label(value)
  return #value <= 200 and is_utf8(value, is_control)
end

function is.text(value, most)
  return #value <= most and is_utf8(value)
end

function is.word(value, ...)
  for _, word in ipairs({ ... }) do
    if value == word then return true end
  end
  return false
end

-- Dependencies: a line with the if-dead policy, the open flag and the batch; then a line for each dependency.
local function is_waits(value)
  local whole, others = string.match(value, '^[0-2][01] ?([^\n]*)(.*)$')
  local n = 0
  for other in string.gmatch(others or '', '\n([^\n]*)') do
    n = n + (is.name(other) and 1 or 1001)
  end
  return whole and n <= 1000 and (whole == '' or is.name(whole) and n == 0)
end

-- Due time, priority, mode, max wait, max attempts; then, each if there is one, the deadline, the uniqueness window,
-- the key and the dependencies.
function is.terms(value)
  local plus, due, max_wait, max, key, waits =
    string.match(value, '^(%+?)(%d+) %d [0-3] (%d+) (%d+)([^\n]*)\n?(.*)$')
  local before, deadline, rest = string.match(key or '', '^<(%+?)(%d+)(.*)$')
  if deadline then key = rest end
  local period, behind = string.match(key or '', '^!(%d+)(.*)$')
  if period then key = behind end
  return due and is.whole(due, 0, plus == '+' and 34560000000000 or 9007199254740991)
    and (not deadline or is.whole(deadline, 0, before == '+' and 34560000000000 or 9007199254740991))
    and (not period or is.whole(period, 1000, 34560000000000))
    and is.whole(max_wait, 0, 34560000000000) and is.whole(max, 1, 1000)
    and (key == '' or string.sub(key, 1, 1) == ' ' and is.name(string.sub(key, 2)))
    and (waits == '' or is_waits(waits))
end

-- The content type in one byte, 0 for application/octet-stream and 255 for application/json, or its length and the
-- type. Then the payload.
function is.body(value)
  local length = string.byte(value)
  if not length then return false end
  if length == 0 or length == 255 then return #value <= 1048577 end
  return is.name(string.sub(value, 2, length + 1)) and #value > length and #value <= 1048577 + length
end

-- Process id in 4 bytes, length of the host name in 1, the host name, and a label.
function is.owner(value)
  local length = string.byte(value, 5)
  if not length or #value < 5 + length then return false end
  return is.label(string.sub(value, 6, 5 + length)) and is.label(string.sub(value, 6 + length))
end

function is.json_name(value)
  local read, list = pcall(cjson.decode, '[' .. value .. ']')
  return read and #list == 1 and type(list[1]) == 'string' and is.name(list[1]) and list[1]
end

-- `any` or `same`, then for each line a space, the number of its SKU, `*` and a quantity.
function is.cart(value)
  local lines = string.match(value, '^any( .*)$') or string.match(value, '^same( .*)$')
  if not lines then return false end
  local seen, n = {}, 0
  local rest = string.gsub(lines, ' (-?%d+)%*(%d+)', function(no, quantity)
    local fine = is.whole(no, -1, 999) and not seen[tonumber(no)] and is.whole(quantity, 1, 1000)
    seen[tonumber(no)] = tonumber(no) >= 0
    n = n + (fine and 1 or 33)
    return ''
  end)
  return rest == '' and n >= 1 and n <= 32
end

function is.specification(value)
  local read, specification = pcall(cjson.decode, value)
  return read and type(specification) == 'table' and type(specification.skus) == 'table'
    and string.match(specification.secret or '', '^%x+$') and #specification.secret == 32
end

local complaint

local SHOWN_BYTES = 100

-- A value that fits into an error: Redis cuts an error at a NUL. A long value is cut between two characters.
local function shown(value)
  local text = tostring(value or '')
  local length, cut = #text, ''
  if length > SHOWN_BYTES then
    text = string.gsub(string.sub(text, 1, SHOWN_BYTES), '[\194-\244][\128-\191]*$', '')
    cut = '…'
  end
  text = string.gsub(text, '%c', function(c) return string.format('\\x%02x', string.byte(c)) end)
  return '`' .. text .. cut .. '`' .. (cut ~= '' and ' (' .. length .. ' bytes)' or '')
end

local function complain(what, value, wanted)
  complaint = { err = 'INVALID ' .. what .. ' is ' .. shown(value) .. '; it must be ' .. wanted }
  error(complaint)
end

local function check_argument(number, of, value)
  if of.none and value == '' then return value end
  return of[3](value, unpack(of, 4)) or complain('ARGV[' .. number .. '], the ' .. of[1] .. ',', value, of[2])
end

-- Checks arguments that repeat, in groups of the same width.
local function check_repeated(each, first)
  local width, seen = #each, {}
  local times = (#ARGV - first + 1) / width
  if times % 1 ~= 0 or times < each.least or times > each.most then
    complain('the number of arguments', #ARGV, first - 1 .. ' and ' .. width .. ' for each ' .. each.what .. ', '
      .. each.least .. ' to ' .. each.most .. ' of them')
  end
  for at = first, #ARGV do
    local of = each[(at - first) % width + 1]
    local meant = check_argument(at, of, ARGV[at])
    if of.once and meant ~= -1 then
      if seen[meant] then complain('ARGV[' .. at .. '], the ' .. of[1] .. ',', ARGV[at], 'in no other place') end
      seen[meant] = true
    end
  end
end

local function check_arguments(declared)
  local fixed = #declared
  if not declared.each and #ARGV ~= fixed then
    complain('the number of arguments', #ARGV, fixed)
  end
  for number = 1, fixed do
    check_argument(number, declared[number], ARGV[number] or complain('the number of arguments', #ARGV, 'greater'))
  end
  if declared.each then check_repeated(declared.each, fixed + 1) end
end

-- Each key must be the common prefix followed by its own ending.
local function check_keys(first, beginning, endings)
  for at, ending in ipairs(endings) do
    local wanted = beginning .. ending
    local key = KEYS[first + at - 1]
    if key ~= wanted then complain('KEYS[' .. first + at - 1 .. ']', key, '`' .. wanted .. '`') end
  end
end

-- Each group checks its own keys, and returns the prefix that the groups after it must share.
local group = {}

function group.lock(first)
  local beginning, name = string.match(KEYS[first], '^(rg:{l:(.*)}:)s$')
  if not beginning or not is.name(name) then complain('KEYS[' .. first .. ']', KEYS[first], '`rg:{l:NAME}:s`') end
  check_keys(first, beginning, ENDINGS.lock)
end

function group.queue(first)
  local beginning, name = string.match(KEYS[first], '^(rg:{q:(.*)}:)m$')
  if not beginning or not is.name(name) then complain('KEYS[' .. first .. ']', KEYS[first], '`rg:{q:NAME}:m`') end
  check_keys(first, beginning, ENDINGS.queue)
  return beginning
end

function group.schedules(first)
  local beginning, name = string.match(KEYS[first], '^(rg:{q:(.*)}:)c$')
  if not beginning or not is.name(name) then complain('KEYS[' .. first .. ']', KEYS[first], '`rg:{q:NAME}:c`') end
  check_keys(first, beginning, ENDINGS.schedules)
end

function group.unique(first, beginning)
  local own, name = string.match(KEYS[first], '^(rg:{q:(.*)}:)u$')
  if not own or not is.name(name) then complain('KEYS[' .. first .. ']', KEYS[first], '`rg:{q:NAME}:u`') end
  check_keys(first, beginning or own, ENDINGS.unique)
  return own
end

function group.sale(first)
  local tag, id = string.match(KEYS[first], '^rg:{([^{}]*)}:sale:([^{}]*):1:c$')
  local queue = string.match(tag or '', '^q:(.*)$')
  if not is.name(id or '') or not (queue and is.name(queue) or tag == 's:' .. id) then
    local wanted = '`rg:{s:SALE}:sale:SALE:1:c`, or `rg:{q:QUEUE}:sale:SALE:1:c` if it has an orders\' queue'
    complain('KEYS[' .. first .. ']', KEYS[first], wanted)
  end
  local beginning = 'rg:{' .. tag .. '}:sale:' .. id .. ':1:'
  check_keys(first, beginning, ENDINGS.sale)
  return beginning
end

-- The staged sale of a rebuild.
function group.loaded(first, beginning)
  check_keys(first, string.sub(beginning, 1, -3) .. 'new:', ENDINGS.sale)
end

function group.answers(first, beginning)
  local client = string.sub(KEYS[first], -16)
  if not is.hexadecimal(client, 16) then
    complain('KEYS[' .. first .. ']', KEYS[first], '`' .. beginning .. 'o:` and 16 hexadecimal digits of a client')
  end
  check_keys(first, beginning, { 'o:' .. client, 'p:' .. client })
end

function group.home(first)
  local id = string.match(KEYS[first], '^rg:{s:(.*)}:home$')
  if not id or not is.name(id) then complain('KEYS[' .. first .. ']', KEYS[first], '`rg:{s:SALE}:home`') end
  return 'rg:{s:' .. id .. '}:'
end

-- A waiting room has the tag of its sale's home.
function group.room(first, beginning)
  check_keys(first, beginning, ENDINGS.room)
end

-- An order queue has the tag of its sale. A sale with its own tag has no order queue.
local function check_orders(first, beginning)
  local tag = string.match(beginning, '^rg:{q:.-}:')
  if tag then check_keys(first, tag, ENDINGS.queue) end
  return tag ~= nil
end

local function check_groups(groups)
  local beginning, count = nil, 0
  for _, of in ipairs(groups) do
    local name, first = of[1], count + 1
    if not KEYS[first] and name ~= 'orders' then complain('the number of keys', #KEYS, 'greater') end
    if name ~= 'orders' then
      repeat
        beginning = group[name](count + 1, beginning) or beginning
        count = count + of[2]
      until not of.each or count >= #KEYS
    elseif check_orders(first, beginning) then
      count = count + of[2]
    end
  end
  if #KEYS ~= count then complain('the number of keys', #KEYS, count) end
end

-- Registers an operation. A complaint is an answer. Any other failure of a check is a bug in this library.
function verb(name, flags, groups, declared, carry_out)
  verbs[name] = carry_out
  local function check()
    check_groups(groups)
    check_arguments(declared)
    local items = groups[1] and groups[1].each and #KEYS / groups[1][2] * #declared.each
    if items and #ARGV ~= items then complain('the number of arguments', #ARGV, items .. ', for so many keys') end
  end
  redis.register_function({
    function_name = 'rushgate_' .. name,
    flags = flags,
    callback = function(keys, arguments)
      KEYS, ARGV, complaint = keys, arguments, nil
      local fine, fault = pcall(check)
      if fine then return carry_out() end
      return complaint or error(fault, 0)
    end,
  })
end

end
