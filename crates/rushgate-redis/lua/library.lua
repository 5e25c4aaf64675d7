-- What the functions share. `verb` registers a function. Each first checks its keys and arguments, with code generated
-- from its header, because its caller may be written in any language.
local KEYS, ARGV
local verbs = {}
local verb

-- Checks of arguments. Each takes the argument and its limits, and returns a true value if the argument is valid. For
-- numbers and names in JSON, which can be written in several ways, the value is what they mean.
local is = {}
local wrong = {}
-- The error of Redis for a call that needs memory.
local FULL = { err = 'OOM the server has reached its memory limit' }

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

-- nfc: generated
-- Each line: a character, and those before it with which NFC composes it. Without Hangul.
local COMPOSED = {
  { 768, 65, 69, 73, 79, 85, 97, 101, 105, 111, 117, 220, 252, 78, 110, 1045, 1048, 1077, 1080, 274, 275, 332, 333,
    87, 119, 194, 226, 258, 259, 202, 234, 212, 244, 416, 417, 431, 432, 89, 121, 7936, 7937, 7944, 7945, 7952, 7953,
    7960, 7961, 7968, 7969, 7976, 7977, 7984, 7985, 7992, 7993, 8000, 8001, 8008, 8009, 8016, 8017, 8025, 8032, 8033,
    8040, 8041, 945, 949, 951, 953, 959, 965, 969, 913, 917, 919, 8127, 970, 921, 8190, 971, 933, 168, 927, 937, },
  { 769, 65, 69, 73, 79, 85, 89, 97, 101, 105, 111, 117, 121, 67, 99, 76, 108, 78, 110, 82, 114, 83, 115, 90, 122,
    220, 252, 71, 103, 197, 229, 198, 230, 216, 248, 168, 913, 917, 919, 921, 927, 933, 937, 970, 945, 949, 951, 953,
    971, 959, 965, 969, 978, 1043, 1050, 1075, 1082, 199, 231, 274, 275, 207, 239, 75, 107, 77, 109, 213, 245, 332,
    333, 80, 112, 360, 361, 87, 119, 194, 226, 258, 259, 202, 234, 212, 244, 416, 417, 431, 432, 7936, 7937, 7944,
    7945, 7952, 7953, 7960, 7961, 7968, 7969, 7976, 7977, 7984, 7985, 7992, 7993, 8000, 8001, 8008, 8009, 8016, 8017,
    8025, 8032, 8033, 8040, 8041, 8127, 8190, },
  { 770, 65, 69, 73, 79, 85, 97, 101, 105, 111, 117, 67, 99, 71, 103, 72, 104, 74, 106, 83, 115, 87, 119, 89, 121, 90,
    122, 7840, 7841, 7864, 7865, 7884, 7885, },
  { 771, 65, 78, 79, 97, 110, 111, 73, 105, 85, 117, 86, 118, 194, 226, 258, 259, 69, 101, 202, 234, 212, 244, 416,
    417, 431, 432, 89, 121, },
  { 772, 65, 97, 69, 101, 73, 105, 79, 111, 85, 117, 220, 252, 196, 228, 550, 551, 198, 230, 490, 491, 214, 246, 213,
    245, 558, 559, 89, 121, 1048, 1080, 1059, 1091, 71, 103, 7734, 7735, 7770, 7771, 945, 913, 953, 921, 965, 933, },
  { 774, 65, 97, 69, 101, 71, 103, 73, 105, 79, 111, 85, 117, 1059, 1048, 1080, 1091, 1046, 1078, 1040, 1072, 1045,
    1077, 552, 553, 7840, 7841, 945, 913, 953, 921, 965, 933, },
  { 775, 67, 99, 69, 101, 71, 103, 73, 90, 122, 65, 97, 79, 111, 66, 98, 68, 100, 70, 102, 72, 104, 77, 109, 78, 110,
    80, 112, 82, 114, 83, 115, 346, 347, 352, 353, 7778, 7779, 84, 116, 87, 119, 88, 120, 89, 121, 383, 67026, 67034, },
  { 776, 65, 69, 73, 79, 85, 97, 101, 105, 111, 117, 121, 89, 921, 933, 953, 965, 978, 1045, 1030, 1077, 1110, 1040,
    1072, 1240, 1241, 1046, 1078, 1047, 1079, 1048, 1080, 1054, 1086, 1256, 1257, 1069, 1101, 1059, 1091, 1063, 1095,
    1067, 1099, 72, 104, 213, 245, 362, 363, 87, 119, 88, 120, 116, },
  { 777, 65, 97, 194, 226, 258, 259, 69, 101, 202, 234, 73, 105, 79, 111, 212, 244, 416, 417, 85, 117, 431, 432, 89,
    121, },
  { 778, 65, 97, 85, 117, 119, 121, },
  { 779, 79, 111, 85, 117, 1059, 1091, },
  { 780, 67, 99, 68, 100, 69, 101, 76, 108, 78, 110, 82, 114, 83, 115, 84, 116, 90, 122, 65, 97, 73, 105, 79, 111, 85,
    117, 220, 252, 71, 103, 75, 107, 439, 658, 106, 72, 104, },
  { 783, 65, 97, 69, 101, 73, 105, 79, 111, 82, 114, 85, 117, 1140, 1141, },
  { 785, 65, 97, 69, 101, 73, 105, 79, 111, 82, 114, 85, 117, },
  { 787, 945, 913, 949, 917, 951, 919, 953, 921, 959, 927, 965, 969, 937, 961, },
  { 788, 945, 913, 949, 917, 951, 919, 953, 921, 959, 927, 965, 933, 969, 937, 961, 929, },
  { 795, 79, 111, 85, 117, },
  { 803, 66, 98, 68, 100, 72, 104, 75, 107, 76, 108, 77, 109, 78, 110, 82, 114, 83, 115, 84, 116, 86, 118, 87, 119,
    90, 122, 65, 97, 69, 101, 73, 105, 79, 111, 416, 417, 85, 117, 431, 432, 89, 121, },
  { 804, 85, 117, },
  { 805, 65, 97, },
  { 806, 83, 115, 84, 116, },
  { 807, 67, 99, 71, 103, 75, 107, 76, 108, 78, 110, 82, 114, 83, 115, 84, 116, 69, 101, 68, 100, 72, 104, },
  { 808, 65, 97, 69, 101, 73, 105, 85, 117, 79, 111, },
  { 813, 68, 100, 69, 101, 76, 108, 78, 110, 84, 116, 85, 117, },
  { 814, 72, 104, },
  { 816, 69, 101, 73, 105, 85, 117, },
  { 817, 66, 98, 68, 100, 75, 107, 76, 108, 78, 110, 82, 114, 84, 116, 90, 122, 104, },
  { 824, 8592, 8594, 8596, 8656, 8660, 8658, 8707, 8712, 8715, 8739, 8741, 8764, 8771, 8773, 8776, 61, 8801, 8781, 60,
    62, 8804, 8805, 8818, 8819, 8822, 8823, 8826, 8827, 8834, 8835, 8838, 8839, 8866, 8872, 8873, 8875, 8828, 8829,
    8849, 8850, 8882, 8883, 8884, 8885, },
  { 834, 7936, 7937, 7944, 7945, 7968, 7969, 7976, 7977, 7984, 7985, 7992, 7993, 8016, 8017, 8025, 8032, 8033, 8040,
    8041, 945, 168, 951, 8127, 953, 970, 8190, 965, 971, 969, },
  { 837, 7936, 7937, 7938, 7939, 7940, 7941, 7942, 7943, 7944, 7945, 7946, 7947, 7948, 7949, 7950, 7951, 7968, 7969,
    7970, 7971, 7972, 7973, 7974, 7975, 7976, 7977, 7978, 7979, 7980, 7981, 7982, 7983, 8032, 8033, 8034, 8035, 8036,
    8037, 8038, 8039, 8040, 8041, 8042, 8043, 8044, 8045, 8046, 8047, 8048, 945, 940, 8118, 913, 8052, 951, 942, 8134,
    919, 8060, 969, 974, 8182, 937, },
  { 1619, 1575, },
  { 1620, 1575, 1608, 1610, 1749, 1729, 1746, },
  { 1621, 1575, },
  { 2364, 2344, 2352, 2355, },
  { 2494, 2503, },
  { 2519, 2503, },
  { 2878, 2887, },
  { 2902, 2887, },
  { 2903, 2887, },
  { 3006, 3014, 3015, },
  { 3031, 2962, 3014, },
  { 3158, 3142, },
  { 3266, 3270, },
  { 3285, 3263, 3270, 3274, },
  { 3286, 3270, },
  { 3390, 3398, 3399, },
  { 3415, 3398, },
  { 3530, 3545, 3548, },
  { 3535, 3545, },
  { 3551, 3545, },
  { 4142, 4133, },
  { 6965, 6917, 6919, 6921, 6923, 6925, 6929, 6970, 6972, 6974, 6975, 6978, },
  { 12441, 12363, 12365, 12367, 12369, 12371, 12373, 12375, 12377, 12379, 12381, 12383, 12385, 12388, 12390, 12392,
    12399, 12402, 12405, 12408, 12411, 12358, 12445, 12459, 12461, 12463, 12465, 12467, 12469, 12471, 12473, 12475,
    12477, 12479, 12481, 12484, 12486, 12488, 12495, 12498, 12501, 12504, 12507, 12454, 12527, 12528, 12529, 12530,
    12541, },
  { 12442, 12399, 12402, 12405, 12408, 12411, 12495, 12498, 12501, 12504, 12507, },
  { 69818, 69785, 69787, 69797, },
  { 69927, 69937, 69938, },
  { 70462, 70471, },
  { 70487, 70471, },
  { 70584, 70594, },
  { 70587, 70532, },
  { 70594, 70539, 70594, },
  { 70601, 70530, 70544, 70594, },
  { 70832, 70841, },
  { 70842, 70841, },
  { 70845, 70841, },
  { 71087, 71096, 71097, },
  { 71984, 71989, },
  { 90398, 90398, },
  { 90399, 90398, 90409, 90401, 90402, },
  { 90400, 90398, 90401, },
  { 90409, 90398, },
  { 93543, 93543, 93539, 93545, },
}
-- First and last of each range of characters that NFC replaces.
local REPLACED_RANGES = { 832, 833, 835, 836, 884, 884, 894, 894, 903, 903, 2392, 2399, 2524, 2525, 2527, 2527, 2611,
    2611, 2614, 2614, 2649, 2651, 2654, 2654, 2908, 2909, 3907, 3907, 3917, 3917, 3922, 3922, 3927, 3927, 3932, 3932,
    3945, 3945, 3955, 3955, 3957, 3958, 3960, 3960, 3969, 3969, 3987, 3987, 3997, 3997, 4002, 4002, 4007, 4007, 4012,
    4012, 4025, 4025, 8049, 8049, 8051, 8051, 8053, 8053, 8055, 8055, 8057, 8057, 8059, 8059, 8061, 8061, 8123, 8123,
    8126, 8126, 8137, 8137, 8139, 8139, 8147, 8147, 8155, 8155, 8163, 8163, 8171, 8171, 8174, 8175, 8185, 8185, 8187,
    8187, 8189, 8189, 8192, 8193, 8486, 8486, 8490, 8491, 9001, 9002, 10972, 10972, 63744, 64013, 64016, 64016, 64018,
    64018, 64021, 64030, 64032, 64032, 64034, 64034, 64037, 64038, 64042, 64109, 64112, 64217, 64285, 64285, 64287,
    64287, 64298, 64310, 64312, 64316, 64318, 64318, 64320, 64321, 64323, 64324, 64326, 64334, 119134, 119140, 119227,
    119232, 194560, 195101,
}
-- nfc: end

local composes = {}
for at = 1, #COMPOSED do
  local all = COMPOSED[at]
  for n = 2, #all do
    composes[all[n] * 2097152 + all[1]] = true
  end
end
local replaced = {}
for at = 1, #REPLACED_RANGES, 2 do
  for code = REPLACED_RANGES[at], REPLACED_RANGES[at + 1] do
    replaced[code] = true
  end
end

-- Whether NFC replaces the character, or composes it with the one before it. A name with such a character is not in NFC.
-- Marks in another order than that of NFC are not noticed, because that takes much larger tables.
local function is_not_nfc(before, code)
  if code < 768 then return false end
  if code >= 4449 and code <= 4469 then return before >= 4352 and before <= 4370 end
  if code >= 4520 and code <= 4546 then
    return before >= 44032 and before <= 55203 and (before - 44032) % 28 == 0
  end
  return replaced[code] or composes[before * 2097152 + code]
end

local function is_not_for_names(code, before)
  return is_control(code) or SPACES[code] or (code >= 8192 and code <= 8202) or code == 123 or code == 125
    or is_invisible(code) or is_not_nfc(before, code)
end

local function is_utf8(text, refused)
  local at, before = 1, 0
  while at <= #text do
    local code, length = character(text, at)
    if not code or (refused and refused(code, before)) then return false end
    before, at = code, at + length
  end
  return true
end

function is.bytes(value, least, most)
  return #value >= least and #value <= most
end

-- What was valid in earlier calls: callers send the same short numbers, owners, carts, terms and keys again and again.
-- `keys` has the names of the keys of a group by that of the first.
local known = { numbers = {}, owners = {}, carts = {}, terms = {}, keys = {}, count = 0 }
local KNOWN_MOST = 4000
local KNOWN_DIGITS, KNOWN_TERMS_BYTES = 11, 64

local function remember_valid(list, value, meaning)
  known.count = known.count + 1
  if known.count > KNOWN_MOST then
    known.numbers, known.owners, known.carts, known.terms, known.keys, known.count = {}, {}, {}, {}, {}, 0
  else
    list[value] = meaning
  end
  return meaning
end

local function whole(value)
  local number = #value <= 20 and string.find(value, '^%-?%d+$') and tonumber(value)
  return number and #value <= KNOWN_DIGITS and remember_valid(known.numbers, value, number) or number
end

function is.whole(value, least, most)
  local number = known.numbers[value] or whole(value)
  return number and number >= least and number <= most and number
end

function is.hexadecimal(value, digits)
  return #value == digits and not string.find(value, '[^0-9a-f]')
end

function is.name(value)
  if value == '' or value == '.' or value == '..' or #value > 200 then return false end
  return string.find(value, '^[!-z|~]+$') or is_utf8(value, is_not_for_names)
end

function is.label(value)
  return #value <= 200 and (string.find(value, '^[ -~]*$') or is_utf8(value, is_control))
end

function is.text(value, most)
  return #value <= most and is_utf8(value)
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

-- The largest delay, µs, moment and number of attempts.
local DELAY_MAX, MOMENT_MAX, ATTEMPTS_MAX = 34560000000000, 9007199254740991, 1000

-- Parses terms: due time, priority, mode, max wait, max attempts; then, each if there is one, the deadline, the uniqueness
-- window, the key and the dependencies. A due time or deadline with a `+` counts from now. nil if they are invalid.
local function parse_terms(value)
  local plus, due, priority, mode, max_wait, max, rest, waits =
    string.match(value, '^(%+?)(%d+) (%d) ([0-3]) (%d+) (%d+)([^\n]*)\n?(.*)$')
  if not due or waits ~= '' and not is_waits(waits) then return nil end
  local before, deadline, behind = string.match(rest, '^<(%+?)(%d+)(.*)$')
  local period, key = string.match(behind or rest, '^!(%d+)(.*)$')
  key = key or behind or rest
  local of = {
    from_now = plus == '+', due = is.whole(due, 0, plus == '+' and DELAY_MAX or MOMENT_MAX), priority = tonumber(priority),
    mode = tonumber(mode), max_wait = is.whole(max_wait, 0, DELAY_MAX), max = is.whole(max, 1, ATTEMPTS_MAX),
    deadline_from_now = before == '+',
    deadline = deadline and is.whole(deadline, 0, before == '+' and DELAY_MAX or MOMENT_MAX),
    period = period and is.whole(period, 1000, DELAY_MAX), key = key ~= '' and string.sub(key, 2) or nil, waits = waits,
  }
  local are_valid = of.due and of.max_wait and of.max and (not deadline or of.deadline) and (not period or of.period)
    and (key == '' or string.sub(key, 1, 1) == ' ' and is.name(of.key))
  return are_valid and of or nil
end

-- The parsed terms. Callers send the same ones again and again.
function is.terms(value)
  if known.terms[value] then return known.terms[value] end
  local of = parse_terms(value)
  return of and #value <= KNOWN_TERMS_BYTES and remember_valid(known.terms, value, of) or of
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
  if known.owners[value] then return true end
  local length = string.byte(value, 5)
  return length and #value >= 5 + length and is.label(string.sub(value, 6, 5 + length))
    and is.label(string.sub(value, 6 + length)) and remember_valid(known.owners, value, true)
end

-- `any` or `same`, then for each line a space, the number of its SKU, `*` and a quantity.
function is.cart(value)
  if known.carts[value] then return true end
  local lines = string.match(value, '^any( .*)$') or string.match(value, '^same( .*)$')
  if not lines then return false end
  local seen, n = {}, 0
  local rest = string.gsub(lines, ' (-?%d+)%*(%d+)', function(no, quantity)
    local fine = is.whole(no, -1, 999) and not seen[tonumber(no)] and is.whole(quantity, 1, 1000)
    seen[tonumber(no)] = tonumber(no) >= 0
    n = n + (fine and 1 or 33)
    return ''
  end)
  return rest == '' and n >= 1 and n <= 32 and remember_valid(known.carts, value, true)
end

function is.specification(value)
  local read, specification = pcall(cjson.decode, value)
  return read and type(specification) == 'table' and type(specification.skus) == 'table'
    and string.match(specification.secret or '', '^%x+$') and #specification.secret == 32
end

-- Refusals. A refused call has changed nothing: the error `INVALID` names what is wrong and what it must be.
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

local function refused(what, value, wanted)
  return { err = 'INVALID ' .. what .. ' is ' .. shown(value) .. '; it must be ' .. wanted }
end

function wrong.argument(number, name, wanted)
  return refused('ARGV[' .. number .. '], the ' .. name .. ',', ARGV[number], wanted)
end

function wrong.count(what, count, wanted)
  return refused('the number of ' .. what, count, wanted)
end

function wrong.key(number, wanted)
  return refused('KEYS[' .. number .. ']', KEYS[number], '`' .. wanted .. '`')
end

-- Groups of keys that belong to one thing: the first key, and how it is shown.
local FIRST_KEYS = {
  lock = { '^(rg:{l:(.*)}:)lock$', 'rg:{l:NAME}:lock' },
  queue = { '^(rg:{q:(.*)}:)meta$', 'rg:{q:NAME}:meta' },
  schedules = { '^(rg:{q:(.*)}:)schedules$', 'rg:{q:NAME}:schedules' },
  attempts = { '^(rg:{s:(.*)}:)attempts$', 'rg:{s:SALE}:attempts' },
  workers = { '^(rg:{q:(.*)}:)workers$', 'rg:{q:NAME}:workers' },
  unique = { '^(rg:{q:(.*)}:)unique$', 'rg:{q:NAME}:unique' },
  sale = { '^(rg:{s:(.*)}:)row$', 'rg:{s:SALE}:row' },
  home = { '^(rg:{s:(.*)}:)home$', 'rg:{s:SALE}:home' },
}

-- The beginning of all keys of a group, if the name in its first key is valid.
local function beginning_of(group, key)
  local beginning, name = string.match(key, FIRST_KEYS[group][1])
  return beginning and is.name(name) and beginning
end

-- Whether a first key has a name of the characters that nearly all names have. One search, where `beginning_of` takes
-- four steps.
local PLAIN_KEYS = { lock = '^rg:{l:%w[%w:._/-]*}:lock$' }
local function is_plain_key(group, key)
  return #key <= 200 and string.find(key, PLAIN_KEYS[group])
end

-- All keys of groups, from the first key of each group. Groups are of one thing, except for a lock and a queue. `starts`
-- has the positions of the first keys in KEYS. The keys of a client's answers are left out: see `put_answers`. nil and a
-- refusal if a key is wrong.
local function names_of(groups, starts)
  local all, n, beginning = {}, 0, nil
  for at = 1, #groups do
    local group, number = groups[at], starts[at]
    local key = KEYS[number] or ''
    if not beginning or group == 'queue' then
      beginning = beginning_of(group, key)
      if not beginning then return nil, wrong.key(number, FIRST_KEYS[group][2]) end
    end
    local part, endings, first = group == 'staged' and 'new:' or '', ENDINGS[group] or ENDINGS.sale, n + 1
    for of_group = 1, #endings do
      n = n + 1
      all[n] = beginning .. part .. endings[of_group]
    end
    if group ~= 'answers' and key ~= all[first] then return nil, wrong.key(number, all[first]) end
  end
  all.beginning = beginning
  return all
end

-- Enters the keys of a client's answers. Each client has its own, so they are not remembered.
local function put_answers(names, groups, starts)
  local number, place, beginning = starts[groups.answers], groups.starts[groups.answers], names.beginning
  local key = KEYS[number] or ''
  local client = string.sub(key, -16)
  if not is.hexadecimal(client, 16) then
    return nil, wrong.key(number, beginning .. 'young:CLIENT` with 16 hexadecimal digits for `CLIENT')
  end
  local young = beginning .. 'young:' .. client
  if key ~= young then return nil, wrong.key(number, young) end
  names[place], names[place + 1] = young, beginning .. 'old:' .. client
  return names
end

-- All keys of groups. They are remembered by the first keys, and valid until the next call.
local function known_names(groups, starts)
  local id = ''
  for at = 1, #groups do
    if at ~= groups.answers then id = id .. (KEYS[starts[at]] or '') end
  end
  local of_groups = known.keys[groups.are]
  if not of_groups then
    of_groups = {}
    known.keys[groups.are] = of_groups
  end
  local names, no = of_groups[id], nil
  if not names then
    names, no = names_of(groups, starts)
    if not names then return nil, no end
    remember_valid(of_groups, id, names)
  end
  if groups.answers then return put_answers(names, groups, starts) end
  return names
end

-- The number of the first of these keys that is not in its place from `first` on.
local function first_wrong(names, first)
  for at = 1, #names do
    if KEYS[first + at - 1] ~= names[at] then return first + at - 1 end
  end
end

-- All keys of a call. The caller passes the first key of each group, or all keys. nil and a refusal if one is wrong.
local function all_keys(groups)
  local passed = #KEYS
  local is_whole = passed == groups.count and passed > #groups
  if not is_whole and passed ~= #groups then
    local wanted = groups.count == #groups and '' or #groups .. ' or '
    return nil, wrong.count('keys', passed, wanted .. groups.count)
  end
  if passed == 0 then return KEYS end
  local names, no = known_names(groups, is_whole and groups.starts or groups.places)
  if not names then return nil, no end
  local number = is_whole and first_wrong(names, 1)
  if number then return nil, wrong.key(number, names[number]) end
  return names
end

-- The same for a group that is repeated for each item: the first keys of all items. These are one key of the caller's
-- each, or all of the group.
local function first_keys(groups)
  local group, count = groups[1], groups.count
  -- A second key that is not another first one belongs to the first item.
  local first_ending = ENDINGS[group][1]
  if not KEYS[2] or count == 1 or string.sub(KEYS[2], -#first_ending) == first_ending then
    for at = 1, math.max(#KEYS, 1) do
      local key = KEYS[at] or ''
      if not is_plain_key(group, key) and not beginning_of(group, key) then
        return nil, wrong.key(at, FIRST_KEYS[group][2])
      end
    end
    return KEYS
  end
  local firsts, starts = {}, {}
  for first = 1, #KEYS, count do
    starts[1] = first
    local names, no = names_of(groups, starts)
    if not names then return nil, no end
    local number = first_wrong(names, first)
    if number then return nil, wrong.key(number, names[number - first + 1]) end
    firsts[#firsts + 1] = names[1]
  end
  return firsts
end

-- Registers a function. `groups` names the groups of its keys, in order.
function verb(name, flags, groups, carry_out)
  verbs[name] = carry_out
  groups.are, groups.count, groups.starts, groups.places = '', 0, {}, {}
  for at = 1, #groups do
    groups.are = groups.are .. ' ' .. groups[at]
    groups.starts[at], groups.places[at] = groups.count + 1, at
    groups.count = groups.count + #(ENDINGS[groups[at]] or ENDINGS.sale)
    if groups[at] == 'answers' then groups.answers = at end
  end
  local keys_of = groups.is_repeated and first_keys or all_keys
  redis.register_function({
    function_name = 'rushgate_' .. PROTOCOL .. '_' .. name,
    flags = flags,
    callback = function(keys, arguments)
      KEYS, ARGV = keys, arguments
      local all, no = keys_of(groups)
      if not all then return no end
      KEYS = all
      return carry_out()
    end,
  })
end

end
