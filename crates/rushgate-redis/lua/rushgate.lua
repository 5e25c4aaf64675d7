#!lua name=rushgate_1
-- Rushgate 0.1.0, protocol 1, build 7e1eb6615ce735ea
local PROTOCOL, VERSION, BUILD = 1, '0.1.0', '7e1eb6615ce735ea'
local ENDINGS = {
  lock = { 'lock', 'line', 'waiters', 'ends' },
  queue = { 'meta', 'records', 'runs', 'newcomers', 'leases', 'listeners', 'at_once', 'waiting0', 'waiting1', 'waiting2', 'waiting3', 'waiting4', 'waiting5', 'waiting6', 'waiting7', 'waiting8', 'waiting9', 'blocked', 'held', 'groups', 'key_leases', 'starts', 'starts_until', 'dead', 'dead_ids', 'done', 'done_ids', 'by_age', 'by_deadline', 'dependents', 'dependencies', 'results', 'result_ids', 'unsettled', 'unsettled_ids', 'events', 'watchers' },
  answers = { 'young', 'old' },
  schedules = { 'schedules', 'schedule_ids', 'schedule_moments' },
  workers = { 'workers', 'worker_ids', 'worker_ends' },
  attempts = { 'attempts', 'attempts_of', 'attempt_servers' },
  unique = { 'unique' },
  room = { 'room', 'tickets' },
  home = { 'home' },
  sale = { 'row', 'returned', 'withdrawn', 'buyers', 'holds', 'deadlines', 'events', 'failed' },
}

local LIMITS = {
  name = '1 to 200 bytes of UTF-8, without white space, control characters, invisible characters or braces, neither `.` nor `..`, and in Normalization Form C (NFC)',
  label = 'at most 200 bytes of UTF-8 without control characters',
  terms = 'five numbers separated by single spaces (due time, priority, mode, max wait, max attempts), and then the optional parts: see "Terms" in docs/protocol/queues.md',
  body = 'a byte 0 (application/octet-stream), 255 (application/json) or the length of a content type and that type, and then the payload, at most 1 MiB',
  owner = 'a process id in 4 bytes, the length of a host\'s name in 1, the name, and a label; name and label at most 200 bytes of UTF-8 each, without control characters',
  specification = 'a JSON object with `skus` and `secret`, as described under "A sale\'s specification"',
  cart = '`any`, or `same` for the same number in every line; then for each line, 1 to 32 of them, a space, the number of its SKU in the sale (-1 if the sale has none such, each other once), `*` and a quantity of 1 to 1,000',
}

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

local function remember_valid(list, value, meaning)
  known.count = known.count + 1
  if known.count > 4000 then
    known.numbers, known.owners, known.carts, known.terms, known.keys, known.count = {}, {}, {}, {}, {}, 0
  else
    list[value] = meaning
  end
  return meaning
end

local function whole(value)
  local number = #value <= 20 and string.find(value, '^%-?%d+$') and tonumber(value)
  return number and #value <= 11 and remember_valid(known.numbers, value, number) or number
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
    from_now = plus == '+', due = is.whole(due, 0, plus == '+' and 34560000000000 or 9007199254740991), priority = tonumber(priority),
    mode = tonumber(mode), max_wait = is.whole(max_wait, 0, 34560000000000), max = is.whole(max, 1, 1000),
    deadline_from_now = before == '+',
    deadline = deadline and is.whole(deadline, 0, before == '+' and 34560000000000 or 9007199254740991),
    period = period and is.whole(period, 1000, 34560000000000), key = key ~= '' and string.sub(key, 2) or nil, waits = waits,
  }
  local are_valid = of.due and of.max_wait and of.max and (not deadline or of.deadline) and (not period or of.period)
    and (key == '' or string.sub(key, 1, 1) == ' ' and is.name(of.key))
  return are_valid and of or nil
end

-- The parsed terms. Callers send the same ones again and again.
function is.terms(value)
  if known.terms[value] then return known.terms[value] end
  local of = parse_terms(value)
  return of and #value <= 64 and remember_valid(known.terms, value, of) or of
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

-- A value that fits into an error: Redis cuts an error at a NUL. A long value is cut between two characters.
local function shown(value)
  local text = tostring(value or '')
  local length, cut = #text, ''
  if length > 100 then
    text = string.gsub(string.sub(text, 1, 100), '[\194-\244][\128-\191]*$', '')
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

-- Returns the version of the protocol and of the library.
--
-- {protocol, version, build}  the protocol's number, which increases with each incompatible change; the library's
--                             version; the hash of its content
--
-- flags: no-writes
verb('version', { 'no-writes' }, {}, function()
  do
    if #ARGV ~= 0 then return wrong.count('arguments', #ARGV, 0) end
  end
  return { PROTOCOL, VERSION, BUILD }
end)

-- The server's clock, read once per script. Numbers become text through `int`, because `tostring` loses digits above
-- 10^14. Formatting two halves as integers takes less time than formatting a floating-point number, which Redis also
-- does for every number that is passed to a command.
local function int(number)
  if number < 1000000000 then return string.format('%d', number) end
  local low = number % 1000000000
  return string.format('%d%09d', (number - low) / 1000000000, low)
end
local now
-- The clock as text.
local text_of_now, moment_of_text
local function now_text()
  if moment_of_text ~= now then moment_of_text, text_of_now = now, int(now) end
  return text_of_now
end

-- Buffers changes to a hash or sorted set and flushes them with few variadic commands, preserving their order. A hash
-- also caches the fields it reads; `false` stands for an absent field.

-- The most members per command.
-- Redis stores a small hash or sorted set as a listpack and scans it for every member added. Before a flush of more
-- than MANY arguments, a temporary member too long for a listpack converts it to a table.
local LONG = '01234567890123456789012345678901234567890123456789012345678901234'

-- Runs a command for many members, in chunks. For HSET and ZADD, `members` alternates fields and values, or scores and
-- members.
local function in_chunks(command, key, members)
  for from = 1, #members, 1000 do
    redis.call(command, key, unpack(members, from, math.min(from + 1000 - 1, #members)))
  end
end

-- Every `width`-th argument, from `first` on.
local function arguments(first, width)
  local all, some, n = ARGV, {}, 0
  for at = first, #all, width do
    n = n + 1
    some[n] = all[at]
  end
  return some
end

-- All fields are set at once, because a Lua table is allocated again when it grows.
local HASH = { put = 'HSET', take = 'HDEL', before = '', long = '' }
local SORTED_SET = { put = 'ZADD', take = 'ZREM', before = 0, long = LONG }

local function hash(key)
  return { key = key, kind = HASH, values = {}, added = false, n = 0, taken = false, taken_n = 0 }
end

local function sorted_set(key)
  return { key = key, kind = SORTED_SET, texts = {}, added = false, n = 0, taken = false, taken_n = 0 }
end

local function write_back(of)
  local kind = of.kind
  if of.n > 0 then
    local many = of.n > 32
    if many then redis.call(kind.put, of.key, kind.before, LONG) end
    in_chunks(kind.put, of.key, of.added)
    if many then redis.call(kind.take, of.key, kind.long) end
    of.added, of.n = false, 0
  end
  if of.taken then
    in_chunks(kind.take, of.key, of.taken)
    of.taken, of.taken_n = false, 0
  end
end

-- Buffers a field and its value (hash), or a score and its member (sorted set).
local function add(of, first, second)
  if of.taken then write_back(of) end
  local added, n = of.added, of.n
  if added then added[n + 1], added[n + 2] = first, second else of.added = { first, second } end
  of.n = n + 2
end

-- Buffers fields and values, or scores and members. The list becomes the buffer's own.
local function add_all(of, list)
  write_back(of)
  of.added, of.n = list, #list
end

-- Buffers a member whose score is a moment. Formatting a number is slow and many members share a moment, so texts are
-- cached.
local function add_at(of, moment, member)
  local text = of.texts[moment]
  if not text then
    text = int(moment)
    of.texts[moment] = text
  end
  add(of, text, member)
end

local function take_out(of, member)
  if of.n > 0 then write_back(of) end
  local taken, n = of.taken, of.taken_n + 1
  if taken then taken[n] = member else of.taken = { member } end
  of.taken_n = n
end

local function set_field(of, field, value)
  of.values[field] = value
  if value then add(of, field, value) else take_out(of, field) end
end

local function read(of, field)
  local value = of.values[field]
  if value == nil then
    value = redis.call('HGET', of.key, field)
    of.values[field] = value
  end
  return value
end

-- Prefetches fields of a hash with one command.
local function fetch(of, fields)
  if #fields == 0 then return end
  write_back(of)
  local values, found = of.values, redis.call('HMGET', of.key, unpack(fields))
  for at = 1, #fields do
    values[fields[at]] = found[at]
  end
end

-- Idempotent replay: the answers to a client's recent calls. A retried call gets the same answer and changes nothing.
-- Two keys, in this order:
--   young  HASH  op (8 bytes) -> packed answer, of at least the latest calls
--   old    HASH  op (8 bytes) -> packed answer, of the calls before
-- When `young` is full it replaces `old`.
--
-- internals:
--   young  totals -> bytes(4) and number(4) of its answers, when its expiry was last set(7), and the highest op
--            ever(8) of each kind of call: enqueue, claim, complete, finish, retry, release, others
-- At least a day after the latest call. The expiry is set at most once an hour.
local KEPT_MS = 25 * 3600 * 1000
local HOUR_US = 3600 * 1000000
local op_of = { enqueue = 1, claim = 2, complete = 3, finish = 4, retry = 5, release = 6, other = 7 }
-- The totals are longer than 64 bytes, so that Redis keeps the hash as a table from the start. It would scan a listpack
-- for each op.
local COUNTS = '>I4I4I7'

-- A call is one or more requests of a kind (`op_of`). If `width` is given, the arguments are items of that width, each
-- with an op in front: a new op starts a request, and '' continues the request of the item before.
local function replay_keys(first, op, kind, width)
  if op == '' then error({ err = 'INVALID the first op is empty; it must be 8 bytes' }) end
  local once = {
    young = KEYS[first], old = KEYS[first + 1], ops = { op }, firsts = { 1 }, answered = {}, known = 0,
    from = 16 + 8 * (kind - 1),
  }
  local seen, n = { [op] = true }, 1
  for at = 1 + (width or #ARGV), #ARGV, width or 1 do
    op = ARGV[at]
    if op ~= '' then
      if seen[op] then error({ err = 'INVALID two requests have the same op; each must have its own' }) end
      seen[op], n = true, n + 1
      once.ops[n], once.firsts[n] = op, at
    end
  end
  return once
end

-- The stored answers by position of the request. A new request has none. An op that is higher than all before of its
-- kind is new, so it is not looked up.
local function remembered_all(once)
  local totals, ops = redis.call('HGET', once.young, 'totals') or string.rep('\0', 71), once.ops
  local from = once.from
  once.totals, once.highest_op = totals, string.sub(totals, from, from + 8 - 1)
  local before = struct.unpack('>I8', once.highest_op)
  local highest = before
  for at = 1, #ops do
    local op = struct.unpack('>I8', ops[at])
    if op <= before then
      local answer = redis.call('HGET', once.young, ops[at]) or redis.call('HGET', once.old, ops[at])
      if answer then once.answered[at], once.known = cmsgpack.unpack(answer), once.known + 1 end
    elseif op > highest then
      highest, once.highest_op = op, ops[at]
    end
  end
  return once.answered
end

-- Stores the answers to the new requests.
local function remember_all(once, answers)
  local totals = once.totals
  local old_bytes, old_calls, said = struct.unpack(COUNTS, totals)
  local bytes, calls, fresh = old_bytes, old_calls, {}
  for at = 1, #answers do
    if not once.answered[at] then
      local packed = cmsgpack.pack(answers[at])
      fresh[#fresh + 1], fresh[#fresh + 2] = once.ops[at], packed
      bytes, calls = bytes + #packed, calls + 1
    end
  end
  if not fresh[1] then return answers end
  if old_bytes > 4194304 or old_calls > 1024 then
    redis.call('RENAME', once.young, once.old)
    bytes, calls, said = bytes - old_bytes, calls - old_calls, 0
  end
  local says = now > said + HOUR_US
  local counts = struct.pack(COUNTS, bytes, calls, says and now or said)
  local from = once.from
  totals = counts .. string.sub(totals, 16, from - 1) .. once.highest_op .. string.sub(totals, from + 8)
  redis.call('HSET', once.young, 'totals', totals, unpack(fresh))
  if says then redis.call('PEXPIRE', once.young, KEPT_MS) end
  return answers
end

-- Answers each request: known ones with the stored answer, new ones item by item.
local function answer_each(once, width, answer_item)
  local answers = {}
  for request = 1, #once.ops do
    local answer = once.answered[request]
    if not answer then
      answer = {}
      for at = once.firsts[request], (once.firsts[request + 1] or #ARGV + 1) - width, width do
        answer_item(answer, at)
      end
    end
    answers[request] = answer
  end
  return answers
end

-- The same for a call that is one request.
local function remembered(once)
  return remembered_all(once)[1]
end

local function remember(once, answer)
  once.answered = {}
  return remember_all(once, { answer })[1]
end

do

-- A lock and its wait queue. Its four keys, in this order:
--   lock     STRING  the latest grant
--   line     ZSET    token -> ticket, of the waiters that are considered alive
--   waiters  HASH    token -> waiter, of all waiters, including one that was granted the lock for the claim window or let
--                    that window pass
--   ends     ZSET    token -> end of its wait
-- The last three exist only while the lock has waiters. An unused lock is deleted about an hour after it was last
-- needed. Its next fence is then taken from the clock.
--
-- Records in answers:
--   waiter  ticket(7) lease(7) since(7) until(7) inbox(8) owner
-- The waiter with the smallest ticket is the first.
--
-- internals:
--   lock  until(7) expires(7) ticket(7) waited for(1) fence(7) token(16) owner's length(2) since(7) inbox(8) owner
--         [token(16)..]
--         until: end of the lease, 0 if the lock was released; expires: when the keys expire, a full minute; ticket: the
--         latest; waited for: 1 if the lock has waiters or had some; fence, token, since, inbox and owner: of the latest
--         grant; token is zeros after a forced release; at the end, the tokens of earlier releases, the latest first
--
-- Budget of a lock without waiters: a grant is GET and SET, a release is GET and SETRANGE, with at most one pack and one
-- unpack each.
local KEPT_US, MINUTE_US = 3600 * 1000000, 60 * 1000000
-- The latest four releases are kept, so that a retried release gets the same answer.
local RELEASED_BYTES = 4 * 16
local LEASE = '>I7I7I7I1'
local LOCK = '>I7I7I7I1I7c16I2'
local GRANT = '>I7I7I7I1I7c16I2I7c8'
-- `until` of a released lock.
local RELEASED = '\0\0\0\0\0\0\0'
local NOBODY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- A lock by its first key.
local function lock_of(key)
  local row = redis.call('GET', key)
  local till, expires, ticket, waited_for, fence, owner, length = 0, 0, 0, 0, 0, NOBODY, 0
  if row then
    till, expires, ticket, waited_for, fence, owner, length = struct.unpack(LOCK, row)
  end
  local beginning = string.sub(key, 1, -5)
  local waiters = beginning .. 'waiters'
  -- One constructor, because a table that grows is allocated again and again.
  return {
    key = key, line = beginning .. 'line', waiters = waiters, ends = beginning .. 'ends', row = row, till = till,
    expires = expires, ticket = ticket, fence = fence, owner = owner, owner_to = 63 + length - 1,
    lined = waited_for == 1 and redis.call('EXISTS', waiters) == 1,
  }
end

local function is_held(lock)
  return lock.till > now
end

local function holds(lock, token)
  return lock.owner == token and lock.till > now
end

-- since(7) inbox(8) owner of the holder.
local function info_of(lock)
  return string.sub(lock.row, 48, lock.owner_to)
end

-- The tokens of the latest releases, the latest first. `latest` is the token of the last holder, if it has released the
-- lock: the row lists it only after the next grant.
local function released_tokens(row, latest, owner_to)
  local earlier = string.sub(row, owner_to + 1)
  if latest and latest ~= NOBODY then earlier = latest .. earlier end
  return string.sub(earlier, 1, RELEASED_BYTES)
end

-- When the keys of a lock expire that is needed until a moment: in µs, and in ms as text. Full minutes, so that most calls
-- use the text of an earlier one.
local expiry, expiry_text = 0, ''
local function expiry_of(moment)
  local at = moment + KEPT_US
  at = at - at % MINUTE_US + MINUTE_US
  if at ~= expiry then expiry, expiry_text = at, int(at / 1000) end
  return expiry, expiry_text
end

-- Postpones the expiry of the keys, if a moment is later. Returns when they expire, ms, if that has changed.
local function keep_until(lock, moment)
  if moment <= lock.expires then return nil end
  local at
  lock.expires, at = expiry_of(moment)
  if lock.lined then
    redis.call('PEXPIREAT', lock.line, at)
    redis.call('PEXPIREAT', lock.waiters, at)
    redis.call('PEXPIREAT', lock.ends, at)
  end
  return at
end

-- Stores what changes between two grants.
local function store_lease(lock, moment)
  local expires = keep_until(lock, moment)
  local lease = struct.pack(LEASE, lock.till, lock.expires, lock.ticket, lock.lined and 1 or 0)
  redis.call('SETRANGE', lock.key, '0', lease)
  if expires then redis.call('PEXPIREAT', lock.key, expires) end
end

local function grant(lock, token, till, inbox, owner)
  local row = lock.row
  local released = row and released_tokens(row, lock.till == 0 and lock.owner, lock.owner_to) or ''
  lock.fence = math.max(lock.fence + 1, now)
  lock.owner, lock.till = token, till
  local expires = keep_until(lock, till)
  local record = struct.pack(GRANT, till, lock.expires, lock.ticket, lock.lined and 1 or 0, lock.fence, token, #owner,
    now, inbox) .. owner
  lock.row, lock.owner_to = record .. released, #record
  if expires then
    redis.call('SET', lock.key, lock.row, 'PXAT', expires)
  else
    redis.call('SET', lock.key, lock.row, 'KEEPTTL')
  end
end

-- Grants a lock that is free and has no waiters. Returns its fence, nil if it has another state.
local function grant_free(key, token, till, inbox, owner)
  local row = redis.call('GET', key)
  if not row then
    local expires, at = expiry_of(till)
    redis.call('SET', key, struct.pack(GRANT, till, expires, 0, 0, now, token, #owner, now, inbox) .. owner, 'PXAT', at)
    return now
  end
  local before, expires, ticket, waited_for, fence, latest, length = struct.unpack(LOCK, row)
  if before > now or waited_for == 1 then return nil end
  local released = released_tokens(row, before == 0 and latest, 63 + length - 1)
  local at
  if till > expires then expires, at = expiry_of(till) end
  fence = math.max(fence + 1, now)
  row = struct.pack(GRANT, till, expires, ticket, 0, fence, token, #owner, now, inbox) .. owner .. released
  if at then redis.call('SET', key, row, 'PXAT', at) else redis.call('SET', key, row, 'KEEPTTL') end
  return fence
end

-- Releases a lock of its holder, if it has no waiters. False if it has another state.
local function release_free(key, token)
  local row = redis.call('GET', key)
  if not row or string.sub(row, 30, 45) ~= token or string.byte(row, 22) == 1
    or struct.unpack('>I7', row) <= now then
    return false
  end
  redis.call('SETRANGE', key, '0', RELEASED)
  return true
end

-- Releases the lock for its holder.
local function release(lock)
  lock.till = 0
  redis.call('SETRANGE', lock.key, '0', RELEASED)
end

-- The answer to a release: 1 if the token is among the latest that released the lock.
local function was_released(lock, token)
  if not lock.row then return 0 end
  local released = released_tokens(lock.row, lock.till == 0 and lock.owner, lock.owner_to)
  for at = 1, #released, #token do
    if string.sub(released, at, at + #token - 1) == token then return 1 end
  end
  return 0
end

local function left(lock)
  return is_held(lock) and lock.till - now or 0
end

-- The wait queue of a lock, which most locks do not have.
-- A waiter that is granted the lock must confirm that it is alive within this time.
local WAITER = '>I7I7I7I7c8'

local function take_from_line(lock, token)
  if lock.lined and redis.call('HDEL', lock.waiters, token) == 1 then
    redis.call('ZREM', lock.line, token)
    redis.call('ZREM', lock.ends, token)
  end
end

-- Starts the lease of a token that holds the lock, perhaps for the claim window.
local function confirm(lock, token, lease)
  take_from_line(lock, token)
  lock.till = now + lease
  store_lease(lock, lock.till)
  return { 1, lock.fence, lock.till, lease }
end

-- Removes the waiters whose wait has ended.
local function tidy(lock)
  if not lock.lined then return end
  repeat
    local over = redis.call('ZRANGEBYSCORE', lock.ends, '-inf', now_text(), 'LIMIT', '0', 500)
    for _, token in ipairs(over) do
      redis.call('HDEL', lock.waiters, token)
      redis.call('ZREM', lock.line, token)
      redis.call('ZREM', lock.ends, token)
    end
  until #over < 500
end

-- Grants a free lock to the first waiter, for at most the claim window, and notifies it: `A`, token, fence, lease
-- until, lease left, key.
local function hand_over(lock)
  tidy(lock)
  if is_held(lock) or not lock.lined then return end
  local token = redis.call('ZRANGE', lock.line, '0', '0')[1]
  if not token then return end
  local row = redis.call('HGET', lock.waiters, token)
  local _, lease, _, _, inbox = struct.unpack(WAITER, row)
  redis.call('ZREM', lock.line, token)
  lease = math.min(lease, 2000000)
  grant(lock, token, now + lease, inbox, string.sub(row, 36 + 1))
  local channel = 'rg:in:' .. string.format('%08x%08x', struct.unpack('>I4I4', inbox))
  redis.call('PUBLISH', channel, 'A' .. token .. struct.pack('>I7I7I7', lock.fence, lock.till, lease) .. lock.key)
end

do

-- Acquires locks, one per caller. Calling again with the same token confirms a grant or returns the position in the
-- wait queue.
--
-- KEYS[1-4..]  the lock, for each lock
-- ARGV[1..]    for each lock, 1 to 128 of them:
--                token: 16 bytes
--                lease: 10,000 to 86,400,000,000 µs
--                wait: 0 to 86,400,000,000 µs; how long to stay in the wait queue; 0 to return "busy" at once
--                barging: 0 or 1; 1 to ignore the wait queue
--                inbox: 8 bytes; of the calling process, zeros if it has none
--                owner: owner
--
-- {answer, ...}  one per lock, in order:
--   {1, fence, lease until, lease left}  granted
--   {2, position, check after, fence}    waiting; the fence is that of the latest grant
--   {3, retry after, waiters}            busy
verb('lock_acquire', {}, { 'lock', is_repeated = true }, function()
  do
    local times = #ARGV / 6
    if times % 1 ~= 0 or times < 1 or times > 128 then
      return wrong.count('arguments', #ARGV, '0 and 6 for each lock, 1 to 128 of them')
    end
    if times ~= #KEYS then
      return wrong.count('arguments', #ARGV, #KEYS * 6 .. ', for that number of locks')
    end
    for at = 1, #ARGV, 6 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'token', '16 bytes')
      end
      if not is.whole(ARGV[at + 1], 10000, 86400000000) then
        return wrong.argument(at + 1, 'lease', '10,000 to 86,400,000,000 µs')
      end
      if not is.whole(ARGV[at + 2], 0, 86400000000) then
        return wrong.argument(at + 2, 'wait', '0 to 86,400,000,000 µs')
      end
      if not is.whole(ARGV[at + 3], 0, 1) then
        return wrong.argument(at + 3, 'barging', '0 or 1')
      end
      if #ARGV[at + 4] ~= 8 then
        return wrong.argument(at + 4, 'inbox', '8 bytes')
      end
      if not is.owner(ARGV[at + 5]) then
        return wrong.argument(at + 5, 'owner', LIMITS.owner)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  -- Most locks are free and have no waiters, so they are handled first, with little of this script.
  local answers, rest = {}, {}
  for n = 1, #KEYS do
    local at = 6 * n - 5
    local lease = tonumber(ARGV[at + 1])
    local fence = grant_free(KEYS[n], ARGV[at], now + lease, ARGV[at + 4], ARGV[at + 5])
    if fence then
      answers[n] = { 1, fence, now + lease, lease }
    else
      rest[#rest + 1] = n
    end
  end
  if not rest[1] then return answers end

  local function acquire(lock, token, lease, wait, barging, inbox, owner)
    tidy(lock)
    if holds(lock, token) then return confirm(lock, token, lease) end
    local row = lock.lined and redis.call('HGET', lock.waiters, token)
    if row and not redis.call('ZSCORE', lock.line, token) then
      -- A waiter that let its claim window pass returns to its old place.
      redis.call('ZADD', lock.line, struct.unpack('>I7', row), token)
    end
    if not is_held(lock) then
      local first = lock.lined and redis.call('ZRANGE', lock.line, '0', '0')[1]
      if not first or first == token or barging == '1' then
        take_from_line(lock, token)
        grant(lock, token, now + lease, inbox, owner)
        return { 1, lock.fence, lock.till, lease }
      end
    end
    if not row and wait > 0 then
      lock.ticket = lock.ticket + 1
      redis.call('HSET', lock.waiters, token, struct.pack(WAITER, lock.ticket, lease, now, now + wait, inbox) .. owner)
      redis.call('ZADD', lock.line, lock.ticket, token)
      redis.call('ZADD', lock.ends, int(now + wait), token)
      -- The keys of the wait queue may be new, so that they have no expiry yet.
      lock.lined, lock.expires = true, 0
      store_lease(lock, math.max(now + wait, lock.till))
    end
    hand_over(lock)
    local rank = wait > 0 and redis.call('ZRANK', lock.line, token)
    if rank then return { 2, rank + 1, left(lock), lock.fence } end
    return { 3, left(lock), redis.call('ZCARD', lock.line) }
  end

  for _, n in ipairs(rest) do
    local token, lease, wait, barging, inbox, owner = unpack(ARGV, 6 * n - 5, 6 * n)
    answers[n] = acquire(lock_of(KEYS[n]), token, tonumber(lease), tonumber(wait), barging, inbox, owner)
  end
  return answers
end)

-- Confirms a grant or returns the position in the wait queue, as `rushgate_1_lock_acquire` does, when the server's memory
-- is full. Nothing is acquired: for a token that neither holds the lock nor waits for it, the error is `OOM`.
--
-- KEYS[1-4..]  the lock, for each lock
-- ARGV[1..]    for each lock, 1 to 128 of them:
--                token: 16 bytes
--                lease: 10,000 to 86,400,000,000 µs
--                wait: 0 to 86,400,000,000 µs; how long to stay in the wait queue; 0 to return "busy" at once
--                barging: 0 or 1; 1 to ignore the wait queue
--                inbox: 8 bytes; of the calling process, zeros if it has none
--                owner: owner
--
-- {answer, ...}  one per lock, in order: granted or waiting, as `rushgate_1_lock_acquire` answers
--
-- flags: allow-oom
verb('lock_confirm', { 'allow-oom' }, { 'lock', is_repeated = true }, function()
  do
    local times = #ARGV / 6
    if times % 1 ~= 0 or times < 1 or times > 128 then
      return wrong.count('arguments', #ARGV, '0 and 6 for each lock, 1 to 128 of them')
    end
    if times ~= #KEYS then
      return wrong.count('arguments', #ARGV, #KEYS * 6 .. ', for that number of locks')
    end
    for at = 1, #ARGV, 6 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'token', '16 bytes')
      end
      if not is.whole(ARGV[at + 1], 10000, 86400000000) then
        return wrong.argument(at + 1, 'lease', '10,000 to 86,400,000,000 µs')
      end
      if not is.whole(ARGV[at + 2], 0, 86400000000) then
        return wrong.argument(at + 2, 'wait', '0 to 86,400,000,000 µs')
      end
      if not is.whole(ARGV[at + 3], 0, 1) then
        return wrong.argument(at + 3, 'barging', '0 or 1')
      end
      if #ARGV[at + 4] ~= 8 then
        return wrong.argument(at + 4, 'inbox', '8 bytes')
      end
      if not is.owner(ARGV[at + 5]) then
        return wrong.argument(at + 5, 'owner', LIMITS.owner)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local function answer(lock, token, lease)
    tidy(lock)
    if holds(lock, token) then return confirm(lock, token, tonumber(lease)) end
    hand_over(lock)
    local rank = lock.lined and redis.call('ZRANK', lock.line, token)
    return rank and { 2, rank + 1, left(lock), lock.fence }
  end

  local answers = {}
  for n = 1, #KEYS do
    local of = answer(lock_of(KEYS[n]), unpack(ARGV, 6 * n - 5, 6 * n))
    if not of then return FULL end
    answers[n] = of
  end
  return answers
end)

-- Extends the lease of a lock.
--
-- KEYS[1-4]  the lock
-- ARGV[1]    token: 16 bytes
-- ARGV[2]    lease: 10,000 to 86,400,000,000 µs; from now
--
-- {fence, lease until, lease left}  extended
-- {}                                the token does not hold the lock, or its lease has expired
--
-- flags: allow-oom
verb('lock_extend', { 'allow-oom' }, { 'lock' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'token', '16 bytes')
    end
    if not is.whole(ARGV[2], 10000, 86400000000) then
      return wrong.argument(2, 'lease', '10,000 to 86,400,000,000 µs')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local lock = lock_of(KEYS[1])
  if not holds(lock, ARGV[1]) then
    return {}
  end
  local lease = tonumber(ARGV[2])
  local _, fence, till = unpack(confirm(lock, ARGV[1], lease))
  return { fence, till, lease }
end)

-- Force-releases a lock, notifies the holder (`R`) and grants the lock to the next waiter.
--
-- KEYS[1-4]  the lock
--
-- {token, fence, lease until, since(7) inbox(8) owner}  the former holder
-- {}                                                    the lock was not held
--
-- flags: allow-oom
verb('lock_force_release', { 'allow-oom' }, { 'lock' }, function()
  do
    if #ARGV ~= 0 then return wrong.count('arguments', #ARGV, 0) end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local lock = lock_of(KEYS[1])
  local lost = {}
  if is_held(lock) then
    local info = info_of(lock)
    lost = { lock.owner, lock.fence, lock.till, info }
    local inbox = string.format(string.rep('%02x', 8), string.byte(info, 8, 15))
    -- Without its token, this is none of the releases that a repeat finds.
    redis.call('SETRANGE', lock.key, 30 - 1, NOBODY)
    lock.owner = NOBODY
    release(lock)
    take_from_line(lock, lost[1])
    redis.call('PUBLISH', 'rg:in:' .. inbox, 'R' .. lost[1] .. lock.key)
  end
  hand_over(lock)
  return lost
end)

-- Returns the grant that a token holds.
--
-- KEYS[1-4]  the lock
-- ARGV[1]    token: 16 bytes
--
-- {fence, lease until, lease left}  the token holds the lock
-- {}                                it does not
--
-- flags: no-writes
verb('lock_held', { 'no-writes' }, { 'lock' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'token', '16 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local lock = lock_of(KEYS[1])
  if not holds(lock, ARGV[1]) then
    return {}
  end
  return { lock.fence, lock.till, left(lock) }
end)

-- Leaves the wait queue of a lock, or releases the lock if it has just been granted.
--
-- KEYS[1-4]  the lock
-- ARGV[1]    token: 16 bytes
--
-- 2  the token held the lock, which is released
-- 1  it was in the wait queue
-- 0  neither
--
-- flags: allow-oom
verb('lock_leave', { 'allow-oom' }, { 'lock' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'token', '16 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local lock = lock_of(KEYS[1])
  if holds(lock, ARGV[1]) then
    release(lock)
    take_from_line(lock, ARGV[1])
    hand_over(lock)
    return 2
  end
  local ends = lock.lined and redis.call('ZSCORE', lock.ends, ARGV[1])
  take_from_line(lock, ARGV[1])
  return ends and tonumber(ends) > now and 1 or 0
end)

-- Releases locks, one per caller, and grants each to its first waiter.
--
-- KEYS[1-4..]  the lock, for each lock
-- ARGV[1..]    for each lock, 1 to 128 of them:
--                token: 16 bytes
--
-- {outcome, ...}  one per lock, in order: 1 released, by this call or one of the lock's latest four releases; 0 not held
--
-- flags: allow-oom
verb('lock_release', { 'allow-oom' }, { 'lock', is_repeated = true }, function()
  do
    local times = #ARGV / 1
    if times % 1 ~= 0 or times < 1 or times > 128 then
      return wrong.count('arguments', #ARGV, '0 and 1 for each lock, 1 to 128 of them')
    end
    if times ~= #KEYS then
      return wrong.count('arguments', #ARGV, #KEYS * 1 .. ', for that number of locks')
    end
    for at = 1, #ARGV, 1 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'token', '16 bytes')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local answers, rest = {}, {}
  for n = 1, #KEYS do
    if release_free(KEYS[n], ARGV[n]) then
      answers[n] = 1
    else
      rest[#rest + 1] = n
    end
  end
  if not rest[1] then return answers end

  for _, n in ipairs(rest) do
    local lock, token = lock_of(KEYS[n]), ARGV[n]
    if holds(lock, token) then
      release(lock)
      take_from_line(lock, token)
    end
    hand_over(lock)
    answers[n] = was_released(lock, token)
  end
  return answers
end)

-- Removes a client from one lock: releases the lock if the client holds it, and leaves the wait queue.
--
-- KEYS[1-4]  the lock
-- ARGV[1]    client: 8 bytes; the first of its tokens
--
-- 1  the client held the lock
-- 0  it did not
--
-- flags: allow-oom
verb('lock_release_all', { 'allow-oom' }, { 'lock' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'client', '8 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local lock = lock_of(KEYS[1])
  if lock.lined then
    for _, token in ipairs(redis.call('HKEYS', lock.waiters)) do
      if string.sub(token, 1, 8) == ARGV[1] then
        take_from_line(lock, token)
      end
    end
  end
  if is_held(lock) and string.sub(lock.owner, 1, 8) == ARGV[1] then
    release(lock)
    hand_over(lock)
    return 1
  end
  return 0
end)

-- Returns the holder and the waiters of a lock.
--
-- KEYS[1-4]  the lock
--
-- {holder, waiters}  holder: {token, fence, lease until, since(7) inbox(8) owner}, or {} if the lock is free
--                    waiters: {token, ticket(7) lease(7) since(7) until(7) inbox(8) owner, ...}, in any order
--
-- flags: no-writes
verb('lock_show', { 'no-writes' }, { 'lock' }, function()
  do
    if #ARGV ~= 0 then return wrong.count('arguments', #ARGV, 0) end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local lock = lock_of(KEYS[1])
  local holder, waiters = {}, {}
  if is_held(lock) then
    holder = { lock.owner, lock.fence, lock.till, info_of(lock) }
  end
  local rows = lock.lined and redis.call('HGETALL', lock.waiters) or {}
  for at = 1, #rows, 2 do
    local _, _, _, till = struct.unpack(WAITER, rows[at + 1])
    if till > now and not holds(lock, rows[at]) then
      table.insert(waiters, rows[at])
      table.insert(waiters, rows[at + 1])
    end
  end
  return { holder, waiters }
end)
end

do

-- The workers of a queue. Their three keys, in this order:
--   workers      HASH  id -> since(7) seen(7) lease until(7) mode(1) concurrency(3) running(3) name's length(1) name
--                      version. Mode: 0 work, 1 quiet, 2 stop
--   worker_ids   ZSET  id -> 0
--   worker_ends  ZSET  id -> lease until
--
-- A worker announces itself every 10 s with a lease of 30 s. After its lease it is listed no more.
local WORKER, WORKER_TERMS = '>I7I7I7I1I3I3', '>I7I7I7I1'

local function worker_keys(first)
  return { workers = KEYS[first], ids = KEYS[first + 1], ends = KEYS[first + 2] }
end

local function read_worker(of, id)
  local packed = redis.call('HGET', of.workers, id)
  if not packed then return nil end
  local since, seen, till, mode, rest_from = struct.unpack(WORKER_TERMS, packed)
  if till <= now then return nil end
  return { since = since, seen = seen, till = till, mode = mode, rest = string.sub(packed, rest_from), packed = packed }
end

-- A queue. Its 37 keys, in this order:
--   meta          HASH  counters and settings, such as paused (1 if it is), capacity, limits and latest_event
--   records       HASH  id -> record, of live tasks
--   runs          HASH  id -> run, of live tasks that were claimed at least once
--   newcomers     HASH  id -> record, of the pending replacements of leased tasks
--   leases        ZSET  leased task -> lease until
--   listeners     ZSET  inbox -> since, of processes that wait for a task to claim
--   at_once       LIST  waiting tasks of the default priority that were due when they were enqueued, in that order
--   waiting       ZSET  other waiting task -> due; ten keys, one per priority
--   blocked       ZSET  waiting tasks with a key
--   held          ZSET  id -> due, of tasks that wait for others
--   groups        HASH  key and priority -> the first of the waiting tasks with that key
--   key_leases    HASH  key -> number of its leased tasks
--   starts        HASH  key -> when its latest tasks started, for the rate of the key; '' for that of the queue
--   starts_until  ZSET  key -> when its start times no longer matter
--   dead          HASH  id -> dead letter
--   dead_ids      ZSET  id -> 0, of dead letters
--   done          HASH  id -> finished task that is kept
--   done_ids      ZSET  id -> finished
--   by_age        ZSET  id -> first, of waiting tasks, if the queue drops its oldest
--   by_deadline   ZSET  id -> deadline, of waiting tasks that have one
--   dependents    ZSET  which tasks wait for others, by dependency
--   dependencies  ZSET  the same, by dependent
--   results       HASH  finished dependencies of live tasks
--   result_ids    ZSET  the same, in order
--   unsettled     HASH  tasks that ended, whose dependents are not all updated yet
--   unsettled_ids ZSET  the same, and removed tasks whose links are still to be deleted
--   events        HASH  number -> event
--   watchers      HASH  id -> inboxes(16 each) to notify when the task finishes; '' for those to notify of events
--
-- The members of sorted sets of tasks end with the id.
--
-- Records in answers:
--   record       arrival(6) turn(1) revision(6) first(7) priority(1) max attempts(2) [due(7)] [deadline(7)]
--                [key's length(1) key] body
--                first: when the id was first enqueued
--                priority: 0 to 9, plus 16 with a key, 32 in `at_once`, 64 with a deadline, 128 if the task waits for
--                others. The 32 stays when the task is claimed
--                due: absent with 32, because it is `first`
--   run          claim(7) turn(1) attempts(2) flags(1) lease until(7) due(7) worker's length(1) worker
--                [note's length(1) percent(1) note] [past's length(2) past] error
--                due: overrides that of the record; percent: 255 for none
--                flags: 1 leased, 2 canceled, 4 failed before and has an error, 8 has a pending replacement, 16 keeps
--                its place in the key group, 32 has a key (while leased), 64 has a past, 128 has a note
--   past         for each of up to ten runs without success: attempt(2) began(7) ended(7) how(1) worker's length(1)
--                worker error's length(1) error
--                how: 0 failed, 1 lost, 2 snoozed
--   dead letter  died(7) attempts(2) max attempts(2) priority(1) error's length(2) error [past's length(2) past]
--                [key's length(1) key] body
--                priority: 0 to 9, plus 16 with a key, 32 with a past
--   done         finished(7) how(1) result's length(4) result run's length(4) run record
--                result: a body, or empty
--   event        at(7) what(1) attempt(2) due(7) id's length(1) id worker or error
--                attempt, due: 0 if they do not apply. Of a task that is done or discarded, due is when its run began
--                what: a number of `how`, or 7 added, 8 replaced, 9 claimed, 10 requeued, 11 failed, 12 lost, 13 released
--                by its worker, 14 cancellation requested, 15 dead letter requeued, 16 dead letter deleted
--   how          how a task finished: 0 done, 1 discarded, 2 canceled, 3 dropped, 4 popped, 5 deleted, 6 dead
--   limits       separated by spaces, with `-` for none: concurrency; count and µs of the rate; the same three per key; 1
--                if first in, first out per key; µs and count of the retention; overflow policy, as in
--                rushgate_1_queue_limit; number of events kept
-- Add the turn to the revision of a record, or to the claim of a run: up to 256 tasks of one call share the number.
--
-- internals:
--   meta          counters: revision(7) arrivals(7) claims(7) wake-ups(7) sets(2) groups(4) skipped(4) listed(7): the
--                   latest revision, arrival and claim; wake-ups so far; bit mask of the sets in use: `waiting` by
--                   priority, and 1024 for `at_once`; number of key groups in `waiting`; number of entries in `at_once` to
--                   skip, and the latest due time of its entries. Present once the queue was used
--                 first_event: the first that may be kept
--                 dropped: number of tasks dropped in total
--                 age_cursor: of the scan that indexes waiting tasks by age; absent when all are indexed
--                 has_deadlines: 1 if waiting tasks have deadlines
--                 unique_until: latest end of a uniqueness window
--                 has_dependencies: 1 if live tasks wait for others or have waited
--                 relayed: and the name of an outbox: the highest number relayed from it
--   leases        claim(7) turn(1) id
--   at_once       place(7) id. An entry is skipped if the task is gone, was claimed, or is not marked in its record
--   waiting       place(7) id
--   blocked       key NUL priority(1) due(7) place(7) id -> 0
--   groups        key NUL priority(1) -> last turn(7) place(7) moment + 1(7) due(7) place(7) id. The last three are its
--                 first task's. Moment + 1 is 0 while the group is blocked
--   starts        7 bytes for each time
--   dependents    other NUL if dead(1) place(7) id -> 0: the task at a place waits for another
--   dependencies  place(7) if dead(1) other -> 0; without `other`, an open batch
--   results       place(7) other -> finished(7) how(1) result or error
--   result_ids    place(7) other -> 0
--   unsettled     finished(7) NUL id -> how(1) result or error
--   unsettled_ids the same -> 0, or finished(7) SOH place(7) id -> 0: a removed task
-- A place is arrival(6) turn(1). If dead: 0 keep waiting, 1 fail, 2 run. The functions do not read bodies. A run with the
-- flag 16 keeps its place in the key group by the record's due time.
--
-- A key group is the waiting tasks of one key and priority. Only its first task is in `waiting`, at the place of the
-- group, and only while the key has room.
local RECORD, HEADER = '>I6I1I6I7I1I2I7c0', '>I6I1I6I7I1I2'
local RUN = '>I7I1I2I1I7I7'
local COUNTERS = '>I7I7I7I7I2I4I4I7'
-- The priority of most tasks.
-- How a task ended, and how a run ended.
-- Overflow policies.
-- The kinds of members of unsettled_ids, and where a member has its kind.
local TASK_ENDED, TASK_GONE, KIND_AT = '\0', '\1', 8
-- The most dependents that one call updates.
-- Error of a task whose deadline passed.
local LATE = 'its deadline passed before it ran'
-- The most finished tasks that one call deletes.
-- The most leases that one call ends. A call that finds more answers AGAIN before it does anything else.
-- The most processes that one call wakes.
local AGAIN = { ok = 'AGAIN' }

-- Parses the limits. A rate is a count and a period.
local function read_limits(q, text)
  local n, per, key_n, key_per, fifo, age, count, overflow, events_n
  q.concurrency, n, per, q.key_concurrency, key_n, key_per, fifo, age, count, overflow, events_n =
    string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d) ?(%S*) ?(%S*) ?(%S*) ?(%S*)$')
  q.events_n = tonumber(events_n)
  q.keep_us, q.keep_n, q.overflow = tonumber(age), tonumber(count), tonumber(overflow)
  q.concurrency, q.rate_n, q.rate_us = tonumber(q.concurrency), tonumber(n), tonumber(per)
  q.key_concurrency, q.key_rate_n, q.key_rate_us = tonumber(q.key_concurrency), tonumber(key_n), tonumber(key_per)
  q.fifo = fifo == '1'
  if q.fifo then q.key_concurrency = 1 end
end

-- The keys that few calls use, as a metatable of `q`. Kept with the names of the keys, which are valid for many calls.
local function rare_keys(first)
  local kept = KEYS.rare or {}
  KEYS.rare = kept
  kept[first] = kept[first] or {
    __index = {
      newcomers = KEYS[first + 3], blocked = KEYS[first + 17], held = KEYS[first + 18], starts_until = KEYS[first + 22],
      dead = KEYS[first + 23], dead_ids = KEYS[first + 24], done = KEYS[first + 25], done_ids = KEYS[first + 26],
      by_age = KEYS[first + 27], by_deadline = KEYS[first + 28], dependents = KEYS[first + 29],
      dependencies = KEYS[first + 30], results = KEYS[first + 31], result_ids = KEYS[first + 32],
      unsettled = KEYS[first + 33], unsettled_ids = KEYS[first + 34], events = KEYS[first + 35],
    },
  }
  return kept[first]
end

local function queue_keys(first)
  local meta = KEYS[first]
  local row = redis.call('HMGET', meta, 'counters', 'paused', 'capacity', 'limits', 'has_deadlines', 'unique_until',
    'has_dependencies')
  local revision, arrival, claim, wakes, used, lines_waiting, skipped, listed_until =
    struct.unpack(COUNTERS, row[1] or string.rep('\0', 45))
  -- All fields are set at once, because a Lua table is allocated again when it grows.
  local q = setmetatable({
    meta = meta, records = hash(KEYS[first + 1]), runs = hash(KEYS[first + 2]), leases = sorted_set(KEYS[first + 4]),
    listeners = KEYS[first + 5], at_once = KEYS[first + 6], waiting = {}, first = first, hashes = {}, moment = now, fresh = {}, started = {},
    terms = {}, woken = 0, changed = false, revision = revision, arrival = arrival, claim = claim, wakes = wakes,
    used = used, lines_waiting = lines_waiting, skipped = skipped,
    listed_until = listed_until, is_known = row[1], paused = row[2] == '1', bound = tonumber(row[3]),
    dated = row[5], unique_till = tonumber(row[6]) or 0, linked = row[7], turn = false, soonest = false,
  }, rare_keys(first))
  if row[4] then read_limits(q, row[4]) end
  return q
end

-- Hashes that most calls do not need, and their places among the keys.
local PLACES = { groups = 19, key_leases = 20, starts = 21, watchers = 36 }
local function hash_of(q, name)
  local of = q.hashes[name]
  if not of then
    of = hash(KEYS[q.first + PLACES[name]])
    q.hashes[name] = of
  end
  return of
end

-- Events other than a task's end, how they are kept, and how processes are notified.
local events = {
  added = 7, replaced = 8, claimed = 9, requeued = 10, failed = 11, lost = 12, released = 13, cancel_asked = 14,
  dead_requeued = 15, dead_deleted = 16,
  -- Buffers an event until the call ends, if the queue keeps events.
  note = function(q, at, id, what, attempt, due, text)
    if not q.events_n then return end
    local noted = q.noted or {}
    local n = #noted
    if n > 0 and noted[n].at > at then q.mixed = true end
    local packed = struct.pack('>I7I1I2I7I1', at, what, attempt or 0, due or 0, #id) .. id .. (text or '')
    noted[n + 1], q.noted = { at = at, place = n, packed = packed }, noted
  end,
  -- The number of the first event kept, or of the next one if none is; and the number of the latest.
  range = function(q)
    local row = redis.call('HMGET', q.meta, 'latest_event', 'first_event')
    local latest = tonumber(row[1]) or 0
    return math.max(tonumber(row[2]) or 1, latest - (q.events_n or 0) + 1), latest
  end,
  -- Numbers the buffered events in order of their moments, and deletes the oldest beyond the limit.
  write = function(q)
    local noted, most = q.noted, q.events_n
    if not noted then return end
    q.noted = nil
    if q.mixed then
      table.sort(noted, function(a, b)
        if a.at ~= b.at then return a.at < b.at end
        return a.place < b.place
      end)
      q.mixed = nil
    end
    local n = #noted
    local latest = redis.call('HINCRBY', q.meta, 'latest_event', n)
    local of, before = hash(q.events), latest - n
    for at = math.max(n - most, 0) + 1, n do
      add(of, int(before + at), noted[at].packed)
    end
    for old = math.max(before - most, 0) + 1, math.min(latest - most, before) do
      take_out(of, int(old))
    end
    write_back(of)
    q.latest_event = latest
  end,
  -- Stores the inbox of a process that watches a task, or the events, for one notification. The latest 64 are kept;
  -- other processes find out by polling.
  leave_inbox = function(q, watched, inbox)
    local watchers, kept_bytes = hash_of(q, 'watchers'), 16 * 63
    local inboxes = read(watchers, watched) or ''
    if not string.find(inboxes, inbox, 1, true) then
      set_field(watchers, watched, string.sub(inboxes, -kept_bytes) .. inbox)
    end
  end,
  -- Notifies every process that watches, once.
  tell = function(q, watched, what)
    local watchers = hash_of(q, 'watchers')
    local inboxes = read(watchers, watched)
    if not inboxes then return end
    local message = what .. ' ' .. string.match(q.meta, '^rg:{q:(.*)}:meta$')
    for at = 1, #inboxes, 16 do
      redis.call('PUBLISH', 'rg:in:' .. string.sub(inboxes, at, at + 15), message)
    end
    set_field(watchers, watched, false)
  end,
}

-- The call adds something, so the queue exists from now on.
local function touch(q)
  if not q.is_known then q.changed = true end
end

local function is_used(q, priority)
  return bit.band(q.used, bit.lshift(1, priority)) ~= 0
end

-- Place of the first waiting set among the keys.
-- The waiting set of a priority.
local function waiting(q, priority)
  local of = q.waiting[priority]
  if not of then
    of = sorted_set(KEYS[q.first + 7 + priority])
    q.waiting[priority], q.used = of, bit.bor(q.used, bit.lshift(1, priority))
  end
  return of
end

-- Tasks that were due when they were enqueued: a list takes much less memory than a sorted set, and less time. It has
-- an entry until a claim reaches it, so that the entry of a task that was canceled or changed is skipped. With many of
-- these, new tasks go to the sorted set, so that they do not accumulate. So they do while the clock is behind the latest
-- entry, because the list is in order of due times.
local at_once = {}
-- Its bit in `sets`.
-- The most entries to skip before new tasks go to the sorted set, if they are also more than half of all entries.
-- The most entries that one call skips, and how many it reads at a time if there are some to skip.

-- Writes the buffered entries.
function at_once.write(q)
  if not q.listed then return end
  in_chunks('RPUSH', q.at_once, q.listed)
  q.listed = nil
end

function at_once.length(q)
  at_once.write(q)
  return redis.call('LLEN', q.at_once)
end

-- Whether a new task that is due now may be appended.
function at_once.may_add(q)
  return now >= q.listed_until and (q.skipped < 1000 or q.skipped * 2 < at_once.length(q))
end

-- Whether a task that is not leased waits here.
function at_once.has(t)
  return t.listed and not t.ran
end

-- Whether a record has no due time: of a task that entered `at_once`.
local function is_listed(record)
  return string.byte(record, 21) % 64 >= 32
end

-- Whether an entry is of a task that waits here, by its record and run.
function at_once.is_live(entry, record, run)
  return record and not run and string.sub(record, 1, 7) == string.sub(entry, 1, 7)
    and is_listed(record)
end

-- Deletes the first entries, of which some were to be skipped.
function at_once.drop(q, n, skipped)
  redis.call('LTRIM', q.at_once, n, '-1')
  q.skipped, q.changed = math.max(q.skipped - skipped, 0), true
end

function at_once.are_all_there(values, n)
  for at = 1, n do
    if not values[at] then return false end
  end
  return true
end

-- Reads entries from one on, and adds the tasks that wait here to `found`, which has at most `n`. Returns how many entries
-- it read.
local function read_entries(q, from, n, found)
  local count, most = #found.ids, n - #found.ids
  if q.skipped > 0 then most = math.max(most, 20) end
  local entries, some, sub = redis.call('LRANGE', q.at_once, from, from + most - 1), {}, string.sub
  if not entries[1] then return 0 end
  for at = 1, #entries do
    some[at] = sub(entries[at], 7 + 1)
  end
  local records = redis.call('HMGET', q.records.key, unpack(some))
  -- Without an entry to skip, all these tasks wait here.
  if q.skipped == 0 and count == 0 and at_once.are_all_there(records, #entries) then
    found.ids, found.records, found.ends = some, records, nil
    return #entries
  end
  local runs = redis.call('HMGET', q.runs.key, unpack(some))
  for at = 1, #entries do
    local record = records[at]
    if count < n and at_once.is_live(entries[at], record, runs[at]) then
      count = count + 1
      found.ids[count], found.records[count], found.ends[count] = some[at], record, from + at
    end
  end
  return #entries
end

-- The first tasks that wait here, up to `n`: their ids and records, and the number of entries up to each, or no numbers
-- if there is nothing to skip. Deletes what is to be skipped before the first task. `is_more` is true if the call has read
-- as many as it may.
function at_once.first(q, n)
  write_back(q.records)
  write_back(q.runs)
  at_once.write(q)
  local found, from, budget = { ids = {}, records = {}, ends = {} }, 0, 2000 + n
  while #found.ids < n do
    if budget <= 0 then
      found.is_more = true
      break
    end
    local read = read_entries(q, from, n, found)
    if read == 0 then break end
    from, budget = from + read, budget - read
    if not found.ids[1] then
      at_once.drop(q, from, from)
      from = 0
    end
  end
  return found
end

-- Whether more entries before the first task are to be skipped than one call may. Skips as many as it may.
function at_once.has_litter(q)
  return q.skipped >= 2000 and at_once.first(q, 1).is_more
end

-- Leaves out the tasks that are not due, because the clock was set back.
function at_once.cut(found)
  local n = #found.ids
  while n > 0 and struct.unpack('>I7', found.records[n], 14) > now do
    found.ids[n], found.records[n], n = nil, nil, n - 1
  end
end

-- The number of entries up to one of these tasks, and how many of them are to be skipped.
function at_once.upto(found, n)
  local entries = found.ends and n > 0 and found.ends[n] or n
  return entries, entries - n
end

-- When the first task here was due, if there is one.
function at_once.head(q)
  if not is_used(q, 10) then return nil end
  local found = at_once.first(q, 1)
  if found.records[1] then return (struct.unpack('>I7', found.records[1], 14)) end
  return found.is_more and now or nil
end

function at_once.add(q, place)
  local listed = q.listed
  if listed then listed[#listed + 1] = place else q.listed = { place } end
  q.used, q.listed_until = bit.bor(q.used, bit.lshift(1, 10)), now
  q.woken, q.changed = q.woken + 1, true
end

-- Takes out a task that was not claimed: its entry if it is the first or the last, otherwise it is to be skipped.
function at_once.take_out(q, place)
  at_once.write(q)
  if q.skipped > 0 then at_once.first(q, 1) end
  q.changed = true
  if redis.call('LINDEX', q.at_once, '0') == place then
    redis.call('LPOP', q.at_once)
  elseif redis.call('LINDEX', q.at_once, '-1') == place then
    redis.call('RPOP', q.at_once)
  else
    q.skipped = q.skipped + 1
  end
  if q.skipped > 0 and q.skipped >= redis.call('LLEN', q.at_once) then
    redis.call('DEL', q.at_once)
    q.skipped = 0
  end
end

-- Flushes all buffers, before a set is read directly.
local function write_back_queue(q)
  write_back(q.records)
  write_back(q.runs)
  write_back(q.leases)
  for key, starts in pairs(q.started) do
    set_field(hash_of(q, 'starts'), key, starts)
  end
  q.started = {}
  for _, of in pairs(q.hashes) do
    write_back(of)
  end
  for _, of in pairs(q.waiting) do
    write_back(of)
  end
  at_once.write(q)
end

local function is_full(q)
  if not q.bound then return false end
  if not q.size then
    write_back(q.records)
    q.size = redis.call('HLEN', q.records.key)
  end
  return q.size >= q.bound
end

local function has(task, flag)
  return bit.band(task.flags, flag) ~= 0
end

local function body_of(record)
  return string.sub(record, 23 + (is_listed(record) and 1 or 7 + 1))
end

-- The priority and the key, from a priority byte and the text that has the key's length at `at`.
local function line_of(byte, text, at)
  if byte < 16 then return byte end
  return byte - 16, string.sub(text, at + 1, at + string.byte(text, at))
end

local function task_of(id, record, run)
  local arrival, turn, revision, first, byte, max, at = struct.unpack(HEADER, record)
  local due, deadline, held, listed = first, nil, byte >= 128, is_listed(record)
  if held then byte = byte - 128 end
  if listed then byte = byte - 32 else due, at = struct.unpack('>I7', record, at) end
  if byte >= 64 then
    deadline, at = struct.unpack('>I7', record, at)
    byte = byte - 64
  end
  local priority, key = line_of(byte, record, at)
  local t = {
    id = id, record = record, arrival = arrival, turn = turn, revision = revision + turn, first = first, due = due,
    asked = due, priority = priority, key = key, deadline = deadline, max = max, attempts = 0, flags = 0, claim = 0, till = 0,
    worker = '', error = '', held = held, listed = listed,
  }
  if run then
    t.ran = true
    t.claim, t.claim_turn, t.attempts, t.flags, t.till, t.due = struct.unpack(RUN, run)
    t.claim = t.claim + t.claim_turn
    local length, at = string.byte(run, 25 + 1), 25 + 2
    t.worker, at = string.sub(run, at, at + length - 1), at + length
    if t.flags >= 64 then
      if t.flags >= 128 then
        length = string.byte(run, at)
        t.note, at = string.sub(run, at + 1, at + 1 + length), at + 2 + length
      end
      if has(t, 64) then
        t.past, at = struct.unpack('>I2c0', run, at)
      end
    end
    t.error = string.sub(run, at)
  end
  return t
end

local function load(q, id)
  local record = read(q.records, id)
  return record and task_of(id, record, read(q.runs, id))
end

-- Prefetches tasks that will be loaded.
local function fetch_tasks(q, ids)
  fetch(q.records, ids)
  fetch(q.runs, ids)
end

local function pack_run(t)
  local head = struct.pack(RUN, t.claim - t.claim_turn, t.claim_turn, t.attempts, t.flags, t.till, t.due)
  local note = t.note and string.char(#t.note - 1) .. t.note or ''
  local past = t.past and struct.pack('>I2', #t.past) .. t.past or ''
  return head .. string.char(#t.worker) .. t.worker .. note .. past .. t.error
end

-- The first 200 bytes of an error, cut at a character boundary.
local function cut_error(error)
  local length = math.min(#error, 200)
  local next = string.byte(error, length + 1)
  while next and next >= 128 and next < 192 do
    length, next = length - 1, string.byte(error, length)
  end
  return string.sub(error, 1, length)
end

-- Appends a run without success to the past, which keeps the latest ten, each with a cut error.
local function remember_run(t, ended, how, error)
  local most, head_bytes = 10, 17
  local past, ends, from = t.past or '', {}, 1
  error = cut_error(error)
  while from <= #past do
    from = from + head_bytes
    from = from + 1 + string.byte(past, from)
    from = from + 1 + string.byte(past, from)
    ends[#ends + 1] = from
  end
  if #ends == most then past = string.sub(past, ends[1]) end
  t.past = past .. struct.pack('>I2I7I7I1', t.attempts, t.claim, ended, how)
    .. string.char(#t.worker) .. t.worker .. string.char(#error) .. error
  t.flags = bit.bor(t.flags, 64)
end

local function store_run(q, t)
  t.ran = true
  set_field(q.runs, t.id, pack_run(t))
end

local function priority_byte(of)
  return of.priority + (of.key and 16 or 0) + (of.deadline and 64 or 0) + (of.held and 128 or 0)
end

local function store_record(q, t, body)
  set_field(q.records, t.id,
    struct.pack(RECORD, t.arrival, t.turn, t.revision - t.turn, t.first, priority_byte(t), t.max, t.due, body))
end

local function place(t)
  return string.sub(t.record, 1, 7) .. t.id
end

local function lease_of(t)
  return struct.pack('>I7I1c0', t.claim - t.claim_turn, t.claim_turn, t.id)
end

-- Adds an entry to a waiting set. With `wake`, processes are woken for it, now or for its due time.
local function wait(q, priority, due, place, wake)
  add_at(q.waiting[priority] or waiting(q, priority), due, place)
  q.changed = true
  if wake and due <= now then
    q.woken = q.woken + 1
  elseif wake then
    q.soonest = math.min(q.soonest or due, due)
  end
end

-- When the rate of a key, or of the queue without a key, allows one more start. As many start times are kept as the
-- rate allows.
local function free_from(q, key)
  local n, per = q.rate_n, q.rate_us
  if key then n, per = q.key_rate_n, q.key_rate_us end
  local starts = n and (q.started[key or ''] or read(hash_of(q, 'starts'), key or ''))
  if not starts or #starts < 7 * n then return 0 end
  return struct.unpack('>I7', starts, #starts - 7 * n + 1) + per
end

local function leased_of(q, key)
  return tonumber(read(hash_of(q, 'key_leases'), key) or 0)
end

local function count_leased(q, key, change)
  local n = leased_of(q, key) + change
  set_field(hash_of(q, 'key_leases'), key, n > 0 and n)
end

-- A task's member of `blocked`, without the name of its key group.
local function stand_of(t)
  return struct.pack('>I7', has(t, 16) and t.asked or t.due) .. string.sub(t.record, 1, 7) .. t.id
end

local LINE = '>I7c7I7'

-- The name of a key group: its field in `groups`, and the prefix of its members in `blocked`.
local function line_name(key, priority)
  return key .. '\0' .. string.char(priority)
end

local function read_line(q, name)
  local packed = read(hash_of(q, 'groups'), name)
  if not packed then return { turn = 0, moment = 0, first = '' } end
  local line = { packed = packed, first = string.sub(packed, 22) }
  line.turn, line.place, line.moment = struct.unpack(LINE, packed)
  return line
end

local function store_line(q, name, line)
  local packed = struct.pack(LINE, line.turn, line.place, line.moment) .. line.first
  if packed ~= line.packed then set_field(hash_of(q, 'groups'), name, packed) end
  line.packed = packed
end

-- Removes a key group from its waiting set.
local function unseat(q, priority, line)
  if line.moment == 0 then return end
  take_out(waiting(q, priority), line.place .. string.sub(line.first, 15))
  line.moment, q.lines_waiting, q.changed = 0, q.lines_waiting - 1, true
end

-- When the first task of a key group may be claimed; nil while the key has no room. A moment that has passed is kept.
local function moment_of(q, key, line, first)
  if q.key_concurrency and leased_of(q, key) >= q.key_concurrency then return nil end
  local run, free = read(q.runs, string.sub(first, 15)), free_from(q, key)
  local due = run and struct.unpack('>I7', run, 25 - 6) or struct.unpack('>I7', first)
  if free > q.moment then return math.max(due, line.turn, free) end
  if line.first == first and line.moment > 0 and line.moment - 1 <= q.moment then return line.moment - 1 end
  return math.max(due, line.turn)
end

-- Enters a key group into its waiting set, by its first task, if the key has room.
local function seat(q, key, priority, wake)
  local name, behind = line_name(key, priority), line_name(key, priority + 1)
  local line = read_line(q, name)
  local first = redis.call('ZRANGEBYLEX', q.blocked, '[' .. name, '(' .. behind, 'LIMIT', '0', '1')[1]
  if not first then
    unseat(q, priority, line)
    if line.packed then set_field(hash_of(q, 'groups'), name, false) end
    return
  end
  first = string.sub(first, #name + 1)
  local moment = moment_of(q, key, line, first)
  if line.first ~= first or line.moment ~= (moment or -1) + 1 then unseat(q, priority, line) end
  line.first = first
  if not line.place then
    q.arrival, q.turn = q.arrival + 1, nil
    line.place = struct.pack('>I6', q.arrival) .. '\0'
  end
  if moment and line.moment == 0 then
    wait(q, priority, moment, line.place .. string.sub(first, 15), wake)
    q.fresh[name] = wake and moment <= now
    line.moment, q.lines_waiting = moment + 1, q.lines_waiting + 1
  end
  store_line(q, name, line)
end

-- Completes a change to a task: enters its key group again, and the other groups of the key if they share a limit.
local function seat_touched(q, wake)
  local touched = q.touched
  if not touched then return end
  q.touched = nil
  for key, priorities in pairs(touched) do
    if q.key_concurrency or q.key_rate_n then
      local names = {}
      for priority = 0, 9 do
        names[priority + 1] = line_name(key, priority)
      end
      fetch(hash_of(q, 'groups'), names)
      for priority = 0, 9 do
        if read(hash_of(q, 'groups'), names[priority + 1]) then priorities[priority] = true end
      end
    end
    for priority = 0, 9 do
      if priorities[priority] then seat(q, key, priority, wake) end
    end
  end
end

local function touch_line(q, t)
  q.touched = q.touched or {}
  q.touched[t.key] = q.touched[t.key] or {}
  q.touched[t.key][t.priority] = true
end

-- Indexes a waiting task by age, if the queue may drop it, and by its deadline, if it has one.
local function index(q, id, record, deadline)
  if q.overflow == 2 then redis.call('ZADD', q.by_age, int(struct.unpack('>I7', record, 14)), id) end
  if not deadline then return end
  redis.call('ZADD', q.by_deadline, int(deadline), id)
  if not q.dated then redis.call('HSET', q.meta, 'has_deadlines', 1) end
  q.dated = true
end

-- Makes a task wait: for others, in its key group, or by its own due time. Completes a change that `clear_unique` began.
local function stand(q, t, wake)
  index(q, t.id, t.record, t.deadline)
  if t.held then
    redis.call('ZADD', q.held, int(t.due), t.id)
    q.changed = true
  elseif t.key then
    redis.call('ZADD', q.blocked, 0, line_name(t.key, t.priority) .. stand_of(t))
    touch_line(q, t)
    q.changed = true
  else
    wait(q, t.priority, t.due, place(t), wake)
  end
  seat_touched(q, wake)
end

-- Moves a key group back to the due time and place of a task that returns to it, unless the group already comes before
-- them.
local function return_turn(q, t)
  local name, place = line_name(t.key, t.priority), string.sub(t.record, 1, 7)
  local line = read_line(q, name)
  local is_first = line.place and (line.turn < t.due
    or line.turn == t.due and struct.unpack('>I7', line.place) < struct.unpack('>I7', place))
  if is_first then return end
  unseat(q, t.priority, line)
  line.turn, line.place = t.due, place
  store_line(q, name, line)
end

-- Takes a task out of the set in which it waits or is leased. `stand` or `remove` completes the change.
local function detach(q, t)
  if has(t, 1) then
    take_out(q.leases, lease_of(t))
    if q.concurrency then q.woken = q.woken + 1 end
    if t.key then
      count_leased(q, t.key, -1)
      touch_line(q, t)
    end
  elseif t.held then
    redis.call('ZREM', q.held, t.id)
  elseif t.key then
    local name, of = line_name(t.key, t.priority), stand_of(t)
    redis.call('ZREM', q.blocked, name .. of)
    local line = read_line(q, name)
    if line.first == of then
      unseat(q, t.priority, line)
      store_line(q, name, line)
    end
    touch_line(q, t)
  elseif at_once.has(t) then
    at_once.take_out(q, place(t))
    t.listed = nil
  else
    take_out(waiting(q, t.priority), place(t))
  end
  if has(t, 1) then return end
  if q.overflow == 2 then redis.call('ZREM', q.by_age, t.id) end
  if t.deadline then redis.call('ZREM', q.by_deadline, t.id) end
end

-- The first members of a set that have this prefix.
local function beginning(set, with, most)
  return redis.call('ZRANGEBYLEX', set, '[' .. with, '(' .. with .. '\255', 'LIMIT', '0', most)
end

-- A record is gone: its links are to be deleted.
local function forget_waits(q, id, record)
  if not q.linked then return end
  local place = string.sub(record, 1, 7)
  if beginning(q.dependencies, place, 1)[1] or beginning(q.result_ids, place, 1)[1] then
    redis.call('ZADD', q.unsettled_ids, 0, struct.pack('>I7', now) .. TASK_GONE .. place .. id)
    q.ended = true
  end
end

-- A task has ended, with a result or an error: its dependents are to be updated.
local function has_ended(q, id, at, how, what)
  if not q.linked or not beginning(q.dependents, id .. '\0', 1)[1] then return end
  local field = struct.pack('>I7', at) .. TASK_ENDED .. id
  redis.call('ZADD', q.unsettled_ids, 0, field)
  redis.call('HSET', q.unsettled, field, string.char(how) .. what)
  q.ended = true
end

local function remove(q, t, wake)
  detach(q, t)
  set_field(q.records, t.id, false)
  q.size = q.size and q.size - 1
  if t.ran then set_field(q.runs, t.id, false) end
  seat_touched(q, wake)
  if q.keep_n then events.tell(q, t.id, 'T' .. t.id) end
  forget_waits(q, t.id, t.record)
end

-- A task has finished. It is kept if the queue has a retention.
local function finish_task(q, t, at, how, result, wake)
  remove(q, t, wake)
  events.note(q, at, t.id, how, t.attempts, t.claim)
  has_ended(q, t.id, at, how, result)
  if not q.keep_n then return end
  local run = t.ran and pack_run(t) or ''
  local kept = struct.pack('>I7I1I4', at, how, #result) .. result .. struct.pack('>I4', #run) .. run .. t.record
  redis.call('HSET', q.done, t.id, kept)
  redis.call('ZADD', q.done_ids, int(at), t.id)
  q.finished = true
end

-- Finished tasks that are kept.
local finished = {
  -- Counts them, up to a moment.
  count = function(q, till)
    return redis.call('ZCOUNT', q.done_ids, '-inf', till and int(till) or '+inf')
  end,
  -- The entry of a task, if the retention still covers it.
  entry = function(q, id)
    local kept = q.keep_n and redis.call('HGET', q.done, id)
    return kept and struct.unpack('>I7', kept) > now - q.keep_us and kept
  end,
}

-- Deletes those that exceed the retention. True if more are left than one call deletes.
function finished.forget(q, most)
  local n = finished.count(q)
  if q.keep_n then n = math.max(n - q.keep_n, finished.count(q, now - q.keep_us)) end
  if n == 0 then return false end
  local first = redis.call('ZRANGE', q.done_ids, 0, math.min(n, most) - 1)
  in_chunks('HDEL', q.done, first)
  redis.call('ZREMRANGEBYRANK', q.done_ids, 0, #first - 1)
  return n > most
end

-- What all tasks of a call with the same terms have in common.
local function terms(due, priority, mode, max_wait, max, key, deadline)
  local of = {
    due = due, priority = priority, mode = mode, max_wait = max_wait, max = max, key = key, deadline = deadline,
  }
  of.head = struct.pack('>I7I1I2I7', now, priority_byte(of), max, due)
  of.is_usual = due == now and priority == 5 and not key
  of.listed_head = of.is_usual and struct.pack('>I7I1I2', now, priority_byte(of) + 32, max)
  return of
end

-- The place of a new task, whose revision begins with `q.first_revision`.
local function new_place(q)
  local turn = (q.turn or 256 - 1) + 1
  q.arrival, q.revision = q.arrival + 1, q.revision + 1
  if turn == 256 then
    q.first_arrival, q.first_revision, turn = struct.pack('>I6', q.arrival), struct.pack('>I6', q.revision), 0
  end
  q.turn = turn
  return q.first_arrival .. string.char(turn)
end

-- Whether a new task of these terms needs only a record and an entry in `at_once`.
function at_once.suffices(q, of)
  if q.is_plain == nil then
    q.is_plain = not (q.bound or q.events_n or q.overflow == 2) and q.unique_till <= now and at_once.may_add(q)
  end
  return q.is_plain and of.is_plain
end

-- Does what `begin` does, for such a task.
function at_once.begin(q, id, of, body)
  local place = new_place(q)
  set_field(q.records, id, place .. q.first_revision .. of.listed_head .. body)
  at_once.add(q, place .. id)
end

-- Starts a new task under an id: without attempts, with a new revision, as the latest arrival.
local function begin(q, id, of, body)
  local place = new_place(q)
  -- A task with dependencies is linked to them, and held until they end.
  local held = of.hold and of.hold(q, id, place)
  local listed = of.is_usual and not held and at_once.may_add(q)
  local head = listed and of.listed_head
    or held and struct.pack('>I7I1I2I7', now, priority_byte(of) + 128, of.max, of.due) or of.head
  local record = place .. q.first_revision .. head .. body
  set_field(q.records, id, record)
  q.size = q.size and q.size + 1
  if q.events_n then events.note(q, now, id, of.as or events.added, 0, of.due) end
  if of.key or held then
    stand(q, task_of(id, record), true)
  else
    index(q, id, record, of.deadline)
    if listed then at_once.add(q, place .. id) else wait(q, of.priority, of.due, place .. id, true) end
  end
end

-- If a pending replacement waits for the run to end, it becomes the record.
local function promote(q, t, wake)
  if not has(t, 8) then return false end
  events.note(q, q.moment, t.id, events.requeued, t.attempts)
  detach(q, t)
  forget_waits(q, t.id, t.record)
  q.arrival, q.turn = q.arrival + 1, nil
  local record = struct.pack('>I6', q.arrival) .. string.sub(redis.call('HGET', q.newcomers, t.id), 7)
  redis.call('HDEL', q.newcomers, t.id)
  set_field(q.runs, t.id, false)
  set_field(q.records, t.id, record)
  stand(q, task_of(t.id, record), wake)
  return true
end

local function die(q, t, at, error, wake)
  local short = cut_error(error)
  remove(q, t, wake)
  events.note(q, at, t.id, 6, t.attempts, 0, short)
  has_ended(q, t.id, at, 6, short)
  t.held = nil
  local body, past = body_of(t.record), t.past or ''
  if t.deadline then body, t.deadline = string.sub(body, 7 + 1), nil end
  local letter = struct.pack('>I7I2I2I1I2', at, t.attempts, t.max, priority_byte(t) + 32, #error) .. error
  redis.call('HSET', q.dead, t.id, letter .. struct.pack('>I2', #past) .. past .. body)
  redis.call('ZADD', q.dead_ids, 0, t.id)
end

-- A run ends and the task waits again: from `due` on, or in its place from before the claim if `due` is nil.
local function back(q, t, due, wake)
  detach(q, t)
  t.flags, t.note = bit.band(t.flags, 4 + 64 + (due and 0 or 16)), nil
  if due and q.fifo and t.key then t.flags = t.flags + 16 end
  t.claim, t.claim_turn, t.till, t.worker, t.due = 0, 0, 0, '', due or t.due
  store_run(q, t)
  if t.key and not due then return_turn(q, t) end
  stand(q, t, wake)
end

-- Lets a held task run, if it has no dependency left.
local function resume_if_free(q, t, at)
  if beginning(q.dependencies, string.sub(t.record, 1, 7), 1)[1] then return end
  detach(q, t)
  t.held = nil
  store_record(q, t, body_of(t.record))
  q.moment = at
  stand(q, t, true)
  q.moment = now
end

-- Keeps the end of a dependency for its dependent. A field is a place and the id of the dependency.
local function keep_result(q, field, at, how, what)
  redis.call('ZADD', q.result_ids, 0, field)
  redis.call('HSET', q.results, field, struct.pack('>I7I1', at, how) .. what)
end

-- Updates the dependents of a task that ended, up to `most` of them. Returns how many there were.
local function tell(q, ended, most)
  local at, id, kept = struct.unpack('>I7', ended), string.sub(ended, KIND_AT + 1), redis.call('HGET', q.unsettled, ended)
  local how, what = string.byte(kept), string.sub(kept, 2)
  local with, well = id .. '\0', how < 2 or how == 4
  -- Dependents that keep waiting for a dead task are skipped.
  local from = '[' .. with .. (how == 6 and '1' or '')
  local told = redis.call('ZRANGEBYLEX', q.dependents, from, '(' .. with .. '\255', 'LIMIT', '0', most)
  if #told < most then
    redis.call('ZREM', q.unsettled_ids, ended)
    redis.call('HDEL', q.unsettled, ended)
  end
  for _, member in ipairs(told) do
    local policy, first = string.sub(member, #with + 1, #with + 1), #with + 2
    local place = string.sub(member, first, first + 7 - 1)
    redis.call('ZREM', q.dependents, member)
    redis.call('ZREM', q.dependencies, place .. policy .. id)
    local t = load(q, string.sub(member, first + 7))
    if t and t.held and string.sub(t.record, 1, 7) == place then
      if well or policy == '2' then
        keep_result(q, place .. id, at, how, what)
        resume_if_free(q, t, at)
      else
        local why = how == 6 and 'is dead: ' .. what or how == 2 and 'was canceled'
          or how == 3 and 'was dropped' or 'was deleted'
        die(q, t, at, 'waited for ' .. id .. ', which ' .. why, true)
      end
    end
  end
  return #told
end

-- Deletes the links of a task that is gone, up to `most` of them. Returns how many there were.
local function unlink(q, gone, most)
  local place, id = string.sub(gone, KIND_AT + 1, KIND_AT + 7), string.sub(gone, KIND_AT + 1 + 7)
  local links, over = beginning(q.dependencies, place, most), beginning(q.result_ids, place, most)
  if #links + #over < most then redis.call('ZREM', q.unsettled_ids, gone) end
  in_chunks('ZREM', q.dependencies, links)
  in_chunks('ZREM', q.result_ids, over)
  in_chunks('HDEL', q.results, over)
  -- The same links by their dependencies.
  for at, link in ipairs(links) do
    local policy, other = string.sub(link, 7 + 1, 7 + 1), string.sub(link, 7 + 2)
    links[at] = other .. '\0' .. policy .. place .. id
  end
  in_chunks('ZREM', q.dependents, links)
  return #links + #over
end

-- Processes ends in the order in which they happened. True if more is left than one call processes.
local function settle(q)
  if not q.ended then return false end
  local room = 500
  while room > 0 do
    local first = redis.call('ZRANGE', q.unsettled_ids, '0', '0')[1]
    if not first then
      q.ended = nil
      return false
    end
    local n = string.sub(first, KIND_AT, KIND_AT) == TASK_ENDED and tell(q, first, room) or unlink(q, first, room)
    room = room - n - 1
  end
  return true
end

-- The first deadline of a waiting task, if any has one.
local function first_deadline(q)
  if not q.dated then return nil end
  local first = redis.call('ZRANGE', q.by_deadline, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) end
  q.dated = nil
  redis.call('HDEL', q.meta, 'has_deadlines')
end

-- The lower of a moment and the lowest score of a set.
local function with_head(first, set)
  local head = tonumber(redis.call('ZRANGE', set.key, '0', '0', 'WITHSCORES')[2])
  return head and math.min(first or head, head) or first
end

-- When the next waiting task may be claimed: the first due time, or when the rate allows more.
local function next_waiting(q)
  write_back_queue(q)
  local first
  for priority = 0, 9 do
    if is_used(q, priority) then first = with_head(first, waiting(q, priority)) end
  end
  local listed = at_once.head(q)
  if listed then first = math.min(first or listed, listed) end
  if not first or q.concurrency and redis.call('ZCARD', q.leases.key) >= q.concurrency then return nil end
  return q.rate_n and math.max(first, free_from(q)) or first
end

-- When the next task may be claimed: one that waits, or one whose lease ends.
local function next_to_assign(q)
  return with_head(next_waiting(q), q.leases)
end

-- The same, or the first deadline, because a task that dies may release others.
local function next_due(q)
  local first, deadline = next_to_assign(q), first_deadline(q)
  return deadline and math.min(first or deadline, deadline) or first
end

-- Wakes processes that wait for tasks: `Q`, tasks, wake-up count, name. A process that is gone is skipped.
local function ring(q, tasks)
  q.wakes = q.wakes + tasks
  q.changed = true
  local name, woken = string.match(q.meta, '^rg:{q:(.*)}:meta$'), 0
  while woken < math.min(tasks, 8) do
    local inbox = redis.call('ZPOPMIN', q.listeners)[1]
    if not inbox then return end
    woken = woken + redis.call('PUBLISH', 'rg:in:' .. inbox, 'Q' .. tasks .. ' ' .. int(q.wakes) .. ' ' .. name)
  end
end

-- Wakes processes for the tasks that this call made due, or one for a due time that comes before all others.
local function wake_listeners(q)
  if q.woken > 0 then
    ring(q, q.woken)
  elseif q.soonest and redis.call('ZCARD', q.listeners) == 0 then
    -- A process that claimed before this call and listens after it sees that it missed a wake-up.
    q.wakes, q.changed = q.wakes + 1, true
  elseif q.soonest and next_to_assign(q) == math.max(q.soonest, free_from(q)) then
    ring(q, 1)
  end
end

-- Writes the queue's counters, and wakes the processes that wait for what was enqueued.
local function finish(q)
  -- Too many dependents for one call: a process is woken, whose call continues.
  if settle(q) then q.woken = q.woken + 1 end
  if q.finished then finished.forget(q, 2000) end
  events.write(q)
  if q.latest_event then events.tell(q, '', 'E' .. int(q.latest_event)) end
  if q.dropped then redis.call('HINCRBY', q.meta, 'dropped', q.dropped) end
  write_back_queue(q)
  if not q.paused then wake_listeners(q) end
  if q.changed then
    local counters = struct.pack(COUNTERS, q.revision, q.arrival, q.claim, q.wakes, q.used, q.lines_waiting,
      q.skipped, q.listed_until)
    redis.call('HSET', q.meta, 'counters', counters)
  end
end

-- Moves tasks whose deadline has passed to the dead letters. True if more is left than one call processes.
local function delete_late(q)
  local first = first_deadline(q)
  if not first or first > now then return false end
  local late = redis.call('ZRANGEBYSCORE', q.by_deadline, '-inf', now_text(), 'LIMIT', '0', 500)
  for _, id in ipairs(late) do
    local t = load(q, id)
    q.moment = t.deadline
    die(q, t, t.deadline, LATE, true)
  end
  q.moment, q.changed = now, true
  if not settle(q) and #late < 500 then return false end
  finish(q)
  return true
end

-- Processes ends that are left from earlier calls, then expired leases in order of their ends, then passed deadlines.
-- True if more is left than one call processes.
local function reap(q)
  if q.linked then
    q.ended = redis.call('EXISTS', q.unsettled_ids) == 1
    if not q.ended and redis.call('EXISTS', q.dependents, q.dependencies, q.result_ids) == 0 then
      q.linked = nil
      redis.call('HDEL', q.meta, 'has_dependencies')
    end
  end
  if settle(q) then
    finish(q)
    return true
  end
  local over = {}
  -- Counting is much cheaper than an empty range.
  if redis.call('ZCOUNT', q.leases.key, '-inf', now_text()) > 0 then
    over = redis.call('ZRANGEBYSCORE', q.leases.key, '-inf', now_text(), 'LIMIT', '0', 500)
  end
  for at, lease in ipairs(over) do
    over[at] = string.sub(lease, 8 + 1)
  end
  fetch_tasks(q, over)
  for _, id in ipairs(over) do
    local t = load(q, id)
    q.moment = t.till
    if promote(q, t) then
      -- The pending replacement waits now.
    elseif has(t, 2) then
      finish_task(q, t, t.till, 2, '')
    elseif t.attempts >= t.max then
      remember_run(t, t.till, 1, 'lease expired')
      die(q, t, t.till, 'lease expired')
    elseif t.deadline and t.deadline <= t.till then
      remember_run(t, t.till, 1, LATE)
      die(q, t, t.till, LATE)
    else
      remember_run(t, t.till, 1, '')
      events.note(q, t.till, id, events.lost, t.attempts)
      back(q, t)
    end
  end
  q.moment, q.changed = now, q.changed or #over > 0
  if not settle(q) and #over < 500 then return delete_late(q) end
  finish(q)
  return true
end

-- Choosing the tasks that a claim or a pop returns.

-- Counts tasks that start now against a rate limit. The history is written once, when the call ends.
local function count_starts(q, key, n, per, given)
  if not n or given == 0 then return end
  local of = hash_of(q, 'starts')
  local starts = q.started[key or ''] or read(of, key or '') or ''
  q.started[key or ''] = string.sub(starts .. string.rep(struct.pack('>I7', now), given), -7 * n)
  if key then
    -- Each new entry deletes up to two expired ones, so that they do not accumulate.
    for _, other in ipairs(redis.call('ZRANGEBYSCORE', q.starts_until, '-inf', now_text(), 'LIMIT', '0', 2)) do
      redis.call('ZREM', q.starts_until, other)
      if other ~= key then set_field(of, other, false) end
    end
    redis.call('ZADD', q.starts_until, int(now + per), key)
  end
end

-- How many tasks the limits of the whole queue allow to start now.
local function allowed(q)
  local most = math.huge
  if q.concurrency then
    write_back(q.leases)
    most = math.max(q.concurrency - redis.call('ZCARD', q.leases.key), 0)
  end
  if q.rate_n then
    local starts, since = read(hash_of(q, 'starts'), '') or '', now - q.rate_us
    -- Binary search for the first start that is still within the period.
    local from, to = 1, #starts / 7 + 1
    while from < to do
      local at = math.floor((from + to) / 2)
      if struct.unpack('>I7', starts, 7 * at - 6) > since then to = at else from = at + 1 end
    end
    most = math.min(most, q.rate_n - (#starts / 7 + 1 - from))
  end
  return most
end

-- Whether a task of `at_once` comes before one of the same priority with this due time and place.
local function is_before(record, due, place)
  local its_due = struct.unpack('>I7', record, 14)
  return its_due < due or its_due == due and struct.unpack('>I7', record) < struct.unpack('>I7', place)
end

-- The first tasks of a priority in claim order, up to `n`, from its set and from `at_once`: their ids, records and runs,
-- how many are from the set, and how many entries of `at_once` they take up and how many of these are skipped.
local function merged(q, priority, listed, n)
  local places = redis.call('ZRANGEBYSCORE', waiting(q, priority).key, '-inf', now_text(), 'WITHSCORES', 'LIMIT', '0', n)
  local ids, records, runs, from_set, from_list, some = {}, {}, {}, 0, 0, {}
  while #ids < n do
    local place, record = places[2 * from_set + 1], listed.records[from_list + 1]
    if not record and (not place or listed.is_more) then break end
    if record and (not place or is_before(record, tonumber(places[2 * from_set + 2]), place)) then
      from_list = from_list + 1
      ids[#ids + 1], records[#ids + 1] = listed.ids[from_list], record
    else
      from_set = from_set + 1
      some[from_set] = string.sub(place, 7 + 1)
      ids[#ids + 1] = some[from_set]
    end
  end
  if from_set > 0 then
    local of_set, at = redis.call('HMGET', q.records.key, unpack(some)), 0
    local runs_of_set = redis.call('HMGET', q.runs.key, unpack(some))
    for i = 1, #ids do
      if not records[i] then
        at = at + 1
        records[i], runs[i] = of_set[at], runs_of_set[at]
      end
    end
  end
  return ids, records, runs, from_set, at_once.upto(listed, from_list)
end

local function has_tasks(q, priority)
  return is_used(q, priority) or priority == 5 and is_used(q, 10)
end

-- What must precede a choice of tasks. True if more is left than one call processes.
local function prepare(q)
  if reap(q) then return true end
  if not at_once.has_litter(q) then return false end
  finish(q)
  return true
end

-- The first due tasks of a priority, as `merged` returns them. Fewer than there are if many entries are to be skipped.
local function due_of(q, priority, n)
  local listed = { ids = {}, records = {} }
  if priority == 5 and is_used(q, 10) then
    listed = at_once.first(q, n)
    at_once.cut(listed)
    q.is_partial = listed.is_more
  end
  if is_used(q, priority) then return merged(q, priority, listed, n) end
  return listed.ids, listed.records, {}, 0, at_once.upto(listed, #listed.ids)
end

-- Lists of tasks: their ids, records and runs.
local tasks = {}

function tasks.none()
  return { ids = {}, records = {}, runs = {} }
end

-- Adds tasks to `found`, and returns how many it had before. The first lists become its own, so they are not copied.
function tasks.join(found, ids, records, runs)
  local n = #found.ids
  if n == 0 then
    found.ids, found.records, found.runs = ids, records, runs
    return 0
  end
  for at = 1, #ids do
    found.ids[n + at], found.records[n + at], found.runs[n + at] = ids[at], records[at], runs[at]
  end
  return n
end

-- The first due tasks in claim order: their ids, records and runs.
local function due_tasks(q, n)
  write_back_queue(q)
  local found = tasks.none()
  for priority = 0, 9 do
    if #found.ids < n and not q.is_partial and has_tasks(q, priority) then
      tasks.join(found, due_of(q, priority, n - #found.ids))
    end
  end
  return found
end

-- A claimer that got as many tasks as it asked for may have no time for the next one. Wakes a process for that, unless
-- the task was due when it was enqueued, because that woke a process.
local function pass_on(q)
  if redis.call('ZCARD', q.listeners) == 0 then return end
  local found = due_tasks(q, 1)
  local record = found.records[1]
  local was_due = record and (is_listed(record)
    or struct.unpack('>I7', record, 24) <= struct.unpack('>I7', record, 14))
  if was_due and not found.runs[1] then return end
  if record or next_waiting(q) then ring(q, 1) end
end

-- A task with a key was claimed or popped: counts it against the limits of its key, and moves its key group to the end.
local function take_turn(q, t, leased)
  local name = line_name(t.key, t.priority)
  redis.call('ZREM', q.blocked, name .. stand_of(t))
  local line = read_line(q, name)
  q.arrival, q.turn, q.lines_waiting = q.arrival + 1, nil, q.lines_waiting - 1
  line.turn, line.place, line.moment, line.first = now, struct.pack('>I6', q.arrival) .. '\0', 0, ''
  store_line(q, name, line)
  if q.fresh[name] then q.woken = q.woken - 1 end
  if leased then count_leased(q, t.key, 1) end
  count_starts(q, t.key, q.key_rate_n, q.key_rate_us, 1)
  touch_line(q, t)
  seat_touched(q, true)
end

-- Removes chosen tasks from the indexes of waiting tasks, from one on. True if one of them had a key.
function tasks.leave_indexes(q, chosen, from, leased)
  local have_keys = false
  for at = from, #chosen.ids do
    local id, record = chosen.ids[at], chosen.records[at]
    local byte = string.byte(record, 21)
    if q.overflow == 2 then redis.call('ZREM', q.by_age, id) end
    if byte >= 64 then redis.call('ZREM', q.by_deadline, id) end
    if byte % 32 >= 16 then
      take_turn(q, task_of(id, record, chosen.runs[at]), leased)
      have_keys = true
    end
  end
  return have_keys
end

-- Removes the first due tasks from where they wait, in order, and returns them as `due_tasks` does. When a key group
-- has had its turn, its priority is read again, because the group may have another due task.
local function assign(q, n, leased)
  write_back_queue(q)
  local found = tasks.none()
  n = math.min(n, allowed(q))
  for priority = 0, 9 do
    local again = has_tasks(q, priority)
    while again and #found.ids < n and not q.is_partial do
      if is_used(q, priority) then write_back(waiting(q, priority)) end
      local ids, records, runs, from_set, upto, skipped = due_of(q, priority, n - #found.ids)
      again = false
      if #ids > 0 then
        if from_set > 0 then redis.call('ZREMRANGEBYRANK', waiting(q, priority).key, 0, from_set - 1) end
        if upto > 0 then at_once.drop(q, upto, skipped) end
        local before = tasks.join(found, ids, records, runs)
        -- Tasks of `at_once` have no key.
        if from_set > 0 or q.dated or q.overflow == 2 then
          again = tasks.leave_indexes(q, found, before + 1, leased)
        end
        q.changed = true
      end
    end
  end
  count_starts(q, nil, q.rate_n, q.rate_us, #found.ids)
  return found
end

-- Dependencies of tasks that are enqueued.

-- What is known of an id: whether it is known at all; and of a task that has ended when, how, and its result or error.
local function state_of(q, id)
  if read(q.records, id) then return true end
  local kept, letter = finished.entry(q, id), redis.call('HGET', q.dead, id)
  if kept and letter and struct.unpack('>I7', letter) > struct.unpack('>I7', kept) then kept = nil end
  if kept then
    local at, how, length, from = struct.unpack('>I7I1I4', kept)
    return true, at, how, string.sub(kept, from, from + length - 1)
  elseif letter then
    local at, _, _, _, length, from = struct.unpack('>I7I2I2I1I2', letter)
    return true, at, 6, cut_error(string.sub(letter, from, from + length - 1))
  end
  return false
end

-- Links a task to its dependencies. True if it must wait for them.
local function link_to_others(q, id, place, of)
  local dependents, dependencies, policy, held, failed = {}, {}, of.if_dead, of.open, {}
  local function note(members, member)
    members[#members + 1], members[#members + 2] = 0, member
  end
  if of.open then note(dependencies, place .. policy) end
  for _, other in ipairs(of.others) do
    local is_known, at, how, what = state_of(q, other)
    if how and (how < 2 or policy == '2') then
      keep_result(q, place .. other, at, how, what)
    else
      held = true
      note(dependents, other .. '\0' .. policy .. place .. id)
      note(dependencies, place .. policy .. other)
      -- A dependency that is unknown now was dropped to make room for this task.
      if how or not is_known then failed[#failed + 1] = { other, how or 3, what or '' } end
    end
  end
  in_chunks('ZADD', q.dependents, dependents)
  in_chunks('ZADD', q.dependencies, dependencies)
  if not q.linked then redis.call('HSET', q.meta, 'has_dependencies', 1) end
  q.linked = true
  for _, one in ipairs(failed) do
    has_ended(q, one[1], now, one[2], one[3])
  end
  return held
end

-- The place of an open batch, and its if-dead policy; nil if the task is not one.
local function open_place(q, id)
  local record = q.linked and read(q.records, id)
  if not record then return nil end
  local place = string.sub(record, 1, 7)
  local first = beginning(q.dependencies, place, 1)[1]
  if first and #first == 7 + 1 then return place, string.sub(first, -1) end
end

-- Why a task cannot have the dependencies or the batch in its terms, and the id concerned: 0 unknown, 1 not open, 2
-- taken.
local function refusal(q, id, of)
  local t = load(q, id)
  if of.hold and t and has(t, 2) then return 2, id end
  if of.whole then
    if not open_place(q, of.whole) then return 1, of.whole end
    if t and t.held then return 2, id end
  end
  if t or not of.hold then return nil end
  -- Others already wait for this id: its own dependencies could lead back to it.
  if q.linked and beginning(q.dependents, id .. '\0', 1)[1] then return 2, id end
  for _, other in ipairs(of.others) do
    if not state_of(q, other) then return 0, other end
  end
end

-- Adds a member to a batch, unless the batch is gone.
local function become_part(q, part, whole)
  local place, policy = open_place(q, whole)
  if not place then return end
  redis.call('ZADD', q.dependents, 0, part .. '\0' .. policy .. place .. whole)
  redis.call('ZADD', q.dependencies, 0, place .. policy .. part)
  -- The id may have been a member before, under a record that has ended.
  redis.call('ZREM', q.result_ids, place .. part)
  redis.call('HDEL', q.results, place .. part)
end

-- Completing claimed tasks.

-- Completes the tasks of each new request, whose runs were fetched. If the width is 5, each has its end and its result;
-- otherwise it is done. Outcomes: 0 stale, 1 done, 2 requeued.
local function complete_each(q, once, width)
  local asked, runs, ids, leases, n = ARGV, q.runs.values, {}, {}, 0
  local is_limited, has_ends = q.concurrency or q.keep_n or q.linked, width == 5

  local function complete_loaded(id, how, result)
    local t = load(q, id)
    if promote(q, t, true) then return 2 end
    finish_task(q, t, now, has(t, 2) and 2 or how, result, true)
    return 1
  end

  local function complete(id, number, at)
    local run = runs[id]
    if not run then return 0 end
    local claim, turn, attempts, flags = struct.unpack('>I7I1I2I1', run)
    if claim + turn ~= tonumber(number) or flags % 2 ~= 1 then return 0 end
    local how = has_ends and tonumber(asked[at + 3]) or 0
    -- Most runs have none of the flags from REPLACED upward, so the task need not be loaded.
    if is_limited or flags >= 8 then return complete_loaded(id, how, has_ends and asked[at + 4] or '') end
    if q.events_n then
      events.note(q, now, id, bit.band(flags, 2) > 0 and 2 or how, attempts, claim + turn)
    end
    n = n + 1
    ids[n], leases[n], runs[id] = id, string.sub(run, 1, 8) .. id, false
    return 1
  end

  local answers = answer_each(once, width, function(answer, at)
    answer[#answer + 1] = complete(asked[at + 1], asked[at + 2], at)
  end)
  in_chunks('ZREM', q.leases.key, leases)
  in_chunks('HDEL', q.records.key, ids)
  in_chunks('HDEL', q.runs.key, ids)
  return answers
end

-- Changes the due time of a task that waits, and nothing else.
local function move(q, t, due)
  q.revision, q.turn = q.revision + 1, nil
  -- A task with a key may be blocked although it is due.
  local was_due = not t.key and t.due <= now
  detach(q, t)
  t.revision, t.due, t.asked = q.revision, due, due
  store_record(q, t, body_of(t.record))
  if t.ran then store_run(q, t) end
  events.note(q, now, t.id, events.replaced, 0, due)
  stand(q, t, not was_due)
end

-- Enqueuing a task. Outcomes: 1 added, 2 kept, 3 replaced, each with the revision; 4 full, 5 dropped, each with the
-- capacity; 6 displaced, with the revision and the id of the task that was dropped.

-- Applies a second enqueue to a task that waits.
local function put_over(q, t, of, body)
  if of.mode == 2 then
    if of.due >= t.due then return 2, t.revision end
    move(q, t, of.due)
    return 3, q.revision
  end
  q.revision, q.turn = q.revision + 1, nil
  -- A task with a key may be blocked although it is due.
  local was_due = not t.key and t.due <= now
  detach(q, t)
  t.revision = q.revision
  t.due, t.priority, t.max, t.key, t.deadline = of.due, of.priority, of.max, of.key, of.deadline
  if of.mode == 3 then t.due = math.min(t.due, t.first + of.max_wait) end
  t.asked, t.flags = t.due, 0
  if t.ran then set_field(q.runs, t.id, false) end
  store_record(q, t, body)
  events.note(q, now, t.id, events.replaced, 0, t.due)
  stand(q, t, not was_due)
  return 3, q.revision
end

-- Applies a second enqueue to a leased task: it becomes the pending replacement, which takes over when the run ends.
local function put_behind(q, t, of, body)
  local next = has(t, 8) and task_of(t.id, redis.call('HGET', q.newcomers, t.id))
  if next and (of.mode == 0 or (of.mode == 2 and of.due >= next.due)) then
    return 2, next.revision
  end
  q.revision, q.turn, q.changed = q.revision + 1, nil, true
  if next and of.mode == 2 then
    body, next.due = body_of(next.record), of.due
  else
    next = {
      first = next and next.first or now, due = of.due, priority = of.priority, max = of.max, key = of.key,
      deadline = of.deadline,
    }
    if of.mode == 3 then next.due = math.min(next.due, next.first + of.max_wait) end
  end
  redis.call('HSET', q.newcomers, t.id,
    struct.pack(RECORD, 0, 0, q.revision, next.first, priority_byte(next), next.max, next.due, body))
  if not has(t, 8) then
    t.flags = t.flags + 8
    store_run(q, t)
  end
  events.note(q, now, t.id, events.replaced, 0, next.due)
  return 3, q.revision
end

local function count_dropped(q)
  q.dropped = (q.dropped or 0) + 1
end

-- Drops the oldest task that waits and returns its id, or nil if there is none. While the index by age is incomplete,
-- the oldest task is not known.
local function drop_oldest(q)
  if redis.call('HEXISTS', q.meta, 'age_cursor') == 1 then return nil end
  local oldest = redis.call('ZRANGE', q.by_age, '0', '0')[1]
  if not oldest then return nil end
  local t = load(q, oldest)
  finish_task(q, t, now, 3, '', true)
  count_dropped(q)
  return t.id
end

-- Applies the overflow policy to a new task for which the queue has no room.
local function put_too_many(q, id, of, body)
  if q.overflow == 1 then
    count_dropped(q)
    events.note(q, now, id, 3)
    return 5, q.bound
  end
  local dropped = q.overflow == 2 and drop_oldest(q)
  if not dropped then return 4, q.bound end
  begin(q, id, of, body)
  return 6, q.revision, dropped
end

-- Enqueues a task. With `bounded`, the capacity of the queue applies.
local function put(q, id, of, body, bounded)
  local t = load(q, id)
  if not t then
    if bounded and is_full(q) then return put_too_many(q, id, of, body) end
    begin(q, id, of, body)
    return 1, q.revision
  elseif of.mode == 0 and not has(t, 2) then
    return 2, t.revision
  elseif has(t, 1) then
    return put_behind(q, t, of, body)
  end
  return put_over(q, t, of, body)
end

-- The uniqueness windows of a queue: periods in which an id is unique, whether its task is live or not. One key:
--   unique  ZSET  id -> end of its window
--
-- internals:
-- Past windows are deleted as new ones begin. The key expires an hour after its last window.
-- Past windows that are deleted for each new one: more than one, so that they become fewer.

-- The end of an id's window, if it has one.
local function unique_until(key, id)
  local till = tonumber(redis.call('ZSCORE', key, id) or 0)
  return till > now and till
end

-- Prefetches the windows of ids that will be enqueued. The field `unique_until` of meta says whether there is any.
local function fetch_unique(q, key, ids)
  q.unique, q.periods, q.periods_till = {}, sorted_set(key), q.unique_till
  if q.unique_till <= now then return end
  for at, till in ipairs(redis.call('ZMSCORE', key, unpack(ids))) do
    till = tonumber(till or 0)
    if till > now then q.unique[ids[at]] = till end
  end
end

-- A new window never ends before one that the id already has.
local function begin_period(q, id, till)
  till = math.max(till, q.unique[id] or 0)
  q.unique[id], q.periods_till = till, math.max(q.periods_till, till)
  add_at(q.periods, till, id)
end

local function write_periods(q)
  local of, begun = q.periods, q.periods.n / 2
  if begun == 0 then return end
  write_back(of)
  local over = math.min(redis.call('ZCOUNT', of.key, '-inf', now_text()), 2 * begun)
  if over > 0 then redis.call('ZREMRANGEBYRANK', of.key, 0, over - 1) end
  if q.periods_till > q.unique_till then redis.call('HSET', q.meta, 'unique_until', int(q.periods_till)) end
  -- Set every time, because the set may have been deleted and created in the meantime.
  redis.call('PEXPIRE', of.key, int(math.ceil((q.periods_till - now) / 1000) + 3600000))
end

-- Reads the dependencies in the terms: the if-dead policy, the open flag and the batch on the first line, then one
-- dependency per line.
local function add_waits(of, text)
  local seen, rest = {}
  of.if_dead, of.open, of.whole, rest = string.match(text, '^(%d)(%d) ?([^\n]*)(.*)$')
  of.open, of.whole, of.others = of.open == '1', of.whole ~= '' and of.whole, {}
  for other in string.gmatch(rest, '[^\n]+') do
    if not seen[other] then of.others[#of.others + 1], seen[other] = other, true end
  end
  if of.open or #of.others > 0 then
    of.hold = function(q, id, place) return link_to_others(q, id, place, of) end
  end
end

-- The terms of a task. Most tasks of a call have equal terms, so they are cached. The cache ends with the call, because
-- relative times depend on `now`.
local function terms_of(q, text)
  local of = q.terms[text]
  if not of then
    local asked = is.terms(text)
    local deadline, key = asked.deadline, asked.key
    if asked.deadline_from_now then deadline = now + deadline end
    local due = asked.from_now and now + asked.due or asked.due
    of = terms(due, asked.priority, asked.mode, asked.max_wait, asked.max, key, deadline)
    of.period = asked.period
    of.before = key and string.char(#key) .. key
    if deadline then of.before = struct.pack('>I7', deadline) .. (of.before or '') end
    if asked.waits ~= '' then add_waits(of, asked.waits) end
    of.is_plain = of.is_usual and not (of.before or of.period or of.others)
    q.terms[text] = of
  end
  return of
end

-- Whether a deadline among these arguments leaves no time to run the task. Most tasks of a call have equal terms.
local function asks_too_late(q, from, to, width)
  local last
  for at = from, to, width do
    if ARGV[at] ~= last then
      last = ARGV[at]
      local of = terms_of(q, last)
      if of.deadline and of.deadline <= math.max(of.due, now) then return true end
    end
  end
  return false
end

-- A code of its own: only the server's clock can tell, so clients have not checked it.
local TOO_LATE = { err = 'DEADLINE must be later than the due time' }

-- Enqueues a task, unless its id is in a uniqueness window or the queue is full. Outcomes beside those of put.lua: 7
-- recently enqueued, with the end of the window; 8 refused, with a reason and the id of the task concerned.
local function put_asked(q, id, text, body)
  local of, till = terms_of(q, text), q.unique[id]
  if at_once.suffices(q, of) and not read(q.records, id) then
    at_once.begin(q, id, of, body)
    return 1, q.revision
  end
  if till and not read(q.records, id) then return 7, till end
  if of.if_dead then
    -- Process earlier ends first, so that they do not count for the new dependencies.
    while q.ended and settle(q) do end
    local why, other = refusal(q, id, of)
    if why then return 8, why, other end
  end
  if of.before then body = of.before .. body end
  local outcome, number, dropped = put(q, id, of, body, true)
  if of.period and (outcome == 1 or outcome == 3 or outcome == 6) then begin_period(q, id, now + of.period) end
  if of.whole and outcome ~= 4 and outcome ~= 5 then become_part(q, id, of.whole) end
  settle(q)
  return outcome, number, dropped
end

-- The schedules of a queue. Their three keys, in this order:
--   schedules         HASH  id -> revision(6) paused(1) next(7) previous(7) priority(1) max attempts(2) recurrence's
--                           length(2) recurrence body. Next and previous are 0 for none
--   schedule_ids      ZSET  id -> 0
--   schedule_moments  ZSET  id -> next, of schedules that are not paused
--
-- internals:
-- The functions do not read the recurrence. The revision comes from the queue's counter.
local SCHEDULE, STATE, TEMPLATE, TEMPLATE_AT = '>I6I1I7I7I1I2I2', '>I6I1I7I7', '>I1I2I2', 22

local function schedule_keys(first)
  return { schedules = KEYS[first], ids = KEYS[first + 1], moments = KEYS[first + 2] }
end

local function read_schedule(of, id)
  local packed = redis.call('HGET', of.schedules, id)
  if not packed then return nil end
  local s = { id = id, template = string.sub(packed, TEMPLATE_AT) }
  local length, at
  s.revision, s.paused, s.next, s.previous, s.priority, s.max, length, at = struct.unpack(SCHEDULE, packed)
  s.recurrence, s.body = string.sub(packed, at, at + length - 1), string.sub(packed, at + length)
  return s
end

local function store_schedule(of, s)
  redis.call('HSET', of.schedules, s.id, struct.pack(STATE, s.revision, s.paused, s.next, s.previous) .. s.template)
  if s.paused == 0 and s.next > 0 then
    redis.call('ZADD', of.moments, int(s.next), s.id)
  else
    redis.call('ZREM', of.moments, s.id)
  end
end

local function next_revision(q)
  q.revision, q.turn, q.changed = q.revision + 1, nil, true
  return q.revision
end

-- Tasks in answers: the id, the record, the run, and when the task may be claimed.

-- The moment of a live task in answers. Most tasks have none, which their records tell at once.
local function moment_shown(q, id, record, run)
  local byte = string.byte(record, 21)
  if byte >= 128 then return '' end
  if byte % 32 < 16 then return 0 end
  local t = task_of(id, record, run)
  if has(t, 1) then return 0 end
  local line = read_line(q, line_name(t.key, t.priority))
  return line.first == stand_of(t) and line.moment > 0 and int(line.moment - 1) or ''
end

-- Records that a worker lives, or that it has ended.
--
-- KEYS[1-3]  the workers
-- ARGV[1]    id: name
-- ARGV[2]    name: label; the name under which it claims
-- ARGV[3]    version: label
-- ARGV[4]    concurrency: 1 to 1,000,000
-- ARGV[5]    running: 0 to 1,000,000; how many tasks of this queue
-- ARGV[6]    lease: 0 to 86,400,000,000 µs; 0 if it has ended
--
-- 0  it is to work
-- 1  it is to claim nothing
-- 2  it is to stop
--
-- flags: allow-oom
verb('queue_announce', { 'allow-oom' }, { 'workers' }, function()
  do
    if #ARGV ~= 6 then return wrong.count('arguments', #ARGV, 6) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
    if not is.label(ARGV[2]) then
      return wrong.argument(2, 'name', LIMITS.label)
    end
    if not is.label(ARGV[3]) then
      return wrong.argument(3, 'version', LIMITS.label)
    end
    if not is.whole(ARGV[4], 1, 1000000) then
      return wrong.argument(4, 'concurrency', '1 to 1,000,000')
    end
    if not is.whole(ARGV[5], 0, 1000000) then
      return wrong.argument(5, 'running', '0 to 1,000,000')
    end
    if not is.whole(ARGV[6], 0, 86400000000) then
      return wrong.argument(6, 'lease', '0 to 86,400,000,000 µs')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local WORKERS_MAX = 1000
  local id, name, lease = ARGV[1], ARGV[2], tonumber(ARGV[6])
  local of = worker_keys(1)
  local worker = read_worker(of, id)
  local gone = redis.call('ZRANGEBYSCORE', of.ends, '-inf', now_text())
  if lease == 0 then gone[#gone + 1] = id end
  for _, other in ipairs(gone) do
    redis.call('HDEL', of.workers, other)
    redis.call('ZREM', of.ids, other)
    redis.call('ZREM', of.ends, other)
  end
  if lease == 0 then return worker and worker.mode or 0 end
  if not worker and redis.call('HLEN', of.workers) >= WORKERS_MAX then return 0 end
  worker = worker or { since = now, mode = 0 }
  local till = now + lease
  local packed = struct.pack(WORKER, worker.since, now, till, worker.mode, tonumber(ARGV[4]), tonumber(ARGV[5]))
  redis.call('HSET', of.workers, id, packed .. string.char(#name) .. name .. ARGV[3])
  redis.call('ZADD', of.ids, 0, id)
  redis.call('ZADD', of.ends, int(till), id)
  return worker.mode
end)

-- Deletes dead letters.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      all: 0 or 1; 1 for all, 0 for the letters listed
-- ARGV[3..]    for each letter, 0 to 1,000 of them:
--                id: name
--
-- {deleted}  how many
-- AGAIN      more are left: send the call again
--
-- flags: allow-oom
verb('queue_delete_dead', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    local times = (#ARGV - 2) / 1
    if times % 1 ~= 0 or times < 0 or times > 1000 then
      return wrong.count('arguments', #ARGV, '2 and 1 for each letter, 0 to 1000 of them')
    end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if not is.whole(ARGV[2], 0, 1) then
      return wrong.argument(2, 'all', '0 or 1')
    end
    for at = 3, #ARGV, 1 do
      if not is.name(ARGV[at]) then
        return wrong.argument(at, 'id', LIMITS.name)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local PAGE = 500
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
  -- While pages are left, the stored answer has a second part.
  local answer = remembered(once) or { 0, 1 }
  if not answer[2] then return answer end
  if reap(q) then return AGAIN end
  local ids
  if ARGV[2] == '1' then
    ids = redis.call('ZRANGEBYLEX', q.dead_ids, '-', '+', 'LIMIT', '0', PAGE)
    answer[2] = #ids == PAGE and 1 or nil
  else
    ids = {}
    for at = 3, #ARGV do
      table.insert(ids, ARGV[at])
    end
    answer[2] = nil
  end
  if #ids > 0 then
    local seen = {}
    for _, id in ipairs((q.linked or q.events_n) and ids or {}) do
      if not seen[id] and redis.call('HEXISTS', q.dead, id) == 1 then
        seen[id] = true
        events.note(q, now, id, events.dead_deleted)
        if not read(q.records, id) then has_ended(q, id, now, 5, '') end
      end
    end
    redis.call('HDEL', q.dead, unpack(ids))
    answer[1] = answer[1] + redis.call('ZREM', q.dead_ids, unpack(ids))
  end
  finish(q)
  remember(once, answer)
  if answer[2] then return AGAIN end
  return answer
end)

-- Cancels a task, whatever its revision: removes it, or marks it if it is leased.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      id: name
--
-- {outcome}  0 not found, 1 removed, 2 marked
--
-- flags: allow-oom
verb('queue_cancel', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if not is.name(ARGV[2]) then
      return wrong.argument(2, 'id', LIMITS.name)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
  local answer = remembered(once)
  if answer then return answer end
  if reap(q) then return AGAIN end
  local t, outcome = load(q, ARGV[2]), 0
  if t and has(t, 1) then
    if has(t, 8) then
      redis.call('HDEL', q.newcomers, t.id)
      t.flags = t.flags - 8
    end
    t.flags = bit.bor(t.flags, 2)
    store_run(q, t)
    events.note(q, now, t.id, events.cancel_asked)
    outcome = 2
  elseif t then
    finish_task(q, t, now, 2, '', true)
    outcome = 1
  end
  finish(q)
  return remember(once, { outcome })
end)

-- Claims the first due tasks under leases, for one or more requests.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1..]    for each request, 1 to 128 of them, for at most 1,000 tasks together:
--                op: 8 bytes
--                how many: 1 to 1,000
--                lease: 10,000 to 86,400,000,000 µs
--                worker: label; name of the claiming worker
--
-- {{next due, wake-ups, id, record, run, ...}, ...}  one list per request. Next due: 0 if as many were claimed as
--                                                    requested; otherwise how long until a task may be claimable,
--                                                    µs, or '' if none is known
--
-- flags: allow-oom
verb('queue_claim', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    local times = #ARGV / 4
    if times % 1 ~= 0 or times < 1 or times > 128 then
      return wrong.count('arguments', #ARGV, '0 and 4 for each request, 1 to 128 of them')
    end
    for at = 1, #ARGV, 4 do
      if #ARGV[at] ~= 8 then
        return wrong.argument(at, 'op', '8 bytes')
      end
      if not is.whole(ARGV[at + 1], 1, 1000) then
        return wrong.argument(at + 1, 'how many', '1 to 1,000')
      end
      if not is.whole(ARGV[at + 2], 10000, 86400000000) then
        return wrong.argument(at + 2, 'lease', '10,000 to 86,400,000,000 µs')
      end
      if not is.label(ARGV[at + 3]) then
        return wrong.argument(at + 3, 'worker', LIMITS.label)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local WIDTH, TASKS_MOST = 4, 1000
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.claim, WIDTH)
  local answered = remembered_all(once)
  if once.known == #once.ops then return answered end
  local wanted = 0
  for request = 1, #once.ops do
    if not answered[request] then wanted = wanted + tonumber(ARGV[WIDTH * request - 2]) end
  end
  if wanted > TASKS_MOST then return { err = 'INVALID the requests are for more than 1,000 tasks together' } end
  if prepare(q) then return AGAIN end
  local given = q.paused and tasks.none() or assign(q, wanted, true)
  local ids, records, runs = given.ids, given.records, given.runs

  local taken, first, turn, short = 0, nil, 256, {}
  local new_runs, new_leases = {}, {}
  if #ids > 0 then q.claim = math.max(q.claim, now - 1) end

  local function claim(n, lease, worker)
    local till, answer = now + lease, { q.paused and '' or 0, q.wakes }
    -- The parts that all first runs of this request share, before and after their due time.
    local char, byte, sub = string.char, string.byte, string.sub
    local till_text, behind = int(till), char(#worker) .. worker
    local before = struct.pack('>I2I1I7', 1, 1, till)
    local before_of_key = struct.pack('>I2I1I7', 1, 1 + 32, till)
    n = math.min(n, #ids - taken)
    for at = 1, n do
      local no = taken + at
      local id, record, run = ids[no], records[no], runs[no]
      turn = turn + 1
      if turn >= 256 then first, turn = struct.pack('>I7', q.claim + at), 0 end
      local number, priority, attempt = first .. char(turn), byte(record, 21), 1
      if not run then
        local due_from = priority % 64 >= 32 and 14 or 24
        local moment = sub(record, due_from, due_from + 7 - 1)
        run = number .. (priority % 32 >= 16 and before_of_key or before) .. moment .. behind
      else
        local t = task_of(id, record, run)
        t.attempts, t.flags, t.till, t.worker = t.attempts + 1, t.flags + 1, till, worker
        if t.key then t.flags = bit.bor(t.flags, 32) end
        attempt, run = t.attempts, number .. sub(pack_run(t), 8 + 1)
      end
      new_runs[2 * no - 1], new_runs[2 * no] = id, run
      new_leases[2 * no - 1], new_leases[2 * no] = till_text, number .. id
      if q.events_n then
        events.note(q, now, id, events.claimed, attempt, struct.unpack('>I7', run, 25 - 7 + 1), worker)
      end
      answer[3 * at], answer[3 * at + 1], answer[3 * at + 2] = id, record, run
    end
    q.claim, taken = q.claim + n, taken + n
    return answer
  end

  local answers = {}
  for request = 1, #once.ops do
    local answer = answered[request]
    if not answer then
      local _, n, lease, worker = unpack(ARGV, WIDTH * request - 3, WIDTH * request)
      answer = claim(tonumber(n), tonumber(lease), worker)
      if #answer < 2 + 3 * n and not q.paused then short[#short + 1] = answer end
    end
    answers[request] = answer
  end
  add_all(q.runs, new_runs)
  add_all(q.leases, new_leases)
  if short[1] then
    local due = next_due(q)
    for _, answer in ipairs(short) do
      answer[1] = due and math.max(due - now, 0) or ''
    end
  else
    pass_on(q)
  end
  finish(q)
  return remember_all(once, answers)
end)

-- Closes an open batch: it accepts no more members, and runs when all that it waits for has ended.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      id: name
--
-- {outcome, left}  0 not found, 1 closed, 2 not open; left: how many tasks it still waits for
--
-- flags: allow-oom
verb('queue_close_batch', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if not is.name(ARGV[2]) then
      return wrong.argument(2, 'id', LIMITS.name)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
  local answer = remembered(once)
  if answer then return answer end
  if reap(q) then return AGAIN end
  local t, outcome, left = load(q, ARGV[2]), 0, 0
  if t then
    local place, policy = open_place(q, t.id)
    outcome = place and 1 or 2
    if place then
      redis.call('ZREM', q.dependencies, place .. policy)
      left = redis.call('ZLEXCOUNT', q.dependencies, '[' .. place, '(' .. place .. '\255')
      resume_if_free(q, t, now)
    end
  end
  finish(q)
  return remember(once, { outcome, left })
end)

-- Completes claimed tasks, for one or more requests. `rushgate_1_queue_finish` also stores results.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; '' for a further task of the same request
--                id: 1 to 200 bytes
--                claim: 1 to 16 bytes; the claim number, in digits
--
-- {{outcome, ...}, ...}  one list per request: 0 stale, 1 done, 2 requeued, because a pending replacement took over
--
-- flags: allow-oom
verb('queue_complete', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    local times = #ARGV / 3
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '0 and 3 for each task, 1 to 1000 of them')
    end
    for at = 1, #ARGV, 3 do
      if not (ARGV[at] == '' or #ARGV[at] == 8) then
        return wrong.argument(at, 'op', '8 bytes or \'\'')
      end
      if not (#ARGV[at + 1] >= 1 and #ARGV[at + 1] <= 200) then
        return wrong.argument(at + 1, 'id', '1 to 200 bytes')
      end
      if not (#ARGV[at + 2] >= 1 and #ARGV[at + 2] <= 16) then
        return wrong.argument(at + 2, 'claim', '1 to 16 bytes')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local WIDTH = 3
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.complete, WIDTH)
  local answered = remembered_all(once)
  if once.known == #once.ops then return answered end
  if reap(q) then return AGAIN end
  fetch(q.runs, arguments(2, WIDTH))
  local answers = complete_each(q, once, WIDTH)
  finish(q)
  return remember_all(once, answers)
end)

-- Returns dead letters, ordered by id.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     after: name or ''; only ids greater than this
-- ARGV[2]     at most: 1 to 1,000
--
-- {id, dead letter, ...}
--
-- flags: allow-oom
verb('queue_dead', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not (ARGV[1] == '' or is.name(ARGV[1])) then
      return wrong.argument(1, 'after', LIMITS.name)
    end
    if not is.whole(ARGV[2], 1, 1000) then
      return wrong.argument(2, 'at most', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  finish(q)
  local after = ARGV[1] == '' and '-' or '(' .. ARGV[1]
  local ids = redis.call('ZRANGEBYLEX', q.dead_ids, after, '+', 'LIMIT', '0', ARGV[2])
  local answer = {}
  local letters = #ids > 0 and redis.call('HMGET', q.dead, unpack(ids)) or {}
  for at, id in ipairs(ids) do
    table.insert(answer, id)
    table.insert(answer, letters[at])
  end
  return answer
end)

-- Returns one dead letter.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     id: name
--
-- {id, dead letter}
-- {}                 not found
--
-- flags: allow-oom
verb('queue_dead_letter', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  finish(q)
  local letter = redis.call('HGET', q.dead, ARGV[1])
  return letter and { ARGV[1], letter } or {}
end)

-- Returns the live tasks that still wait for a task, by if-dead policy and then by arrival.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     id: name
-- ARGV[2]     at most: 1 to 1,000
--
-- {id, ...}
--
-- flags: allow-oom
verb('queue_dependents', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
    if not is.whole(ARGV[2], 1, 1000) then
      return wrong.argument(2, 'at most', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  finish(q)
  local answer, with = {}, ARGV[1] .. '\0'
  if not q.linked then return answer end
  -- After the ID: a zero byte, the policy, the place.
  local place_from = #with + 2
  for _, member in ipairs(beginning(q.dependents, with, ARGV[2])) do
    local place = string.sub(member, place_from, place_from + 7 - 1)
    local id = string.sub(member, place_from + 7)
    -- A link may outlive its task for a while.
    local record = read(q.records, id)
    if record and string.sub(record, 1, 7) == place then answer[#answer + 1] = id end
  end
  return answer
end)

-- Removes a task if it has not changed since it was read.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      id: name
-- ARGV[3]      revision: 0 to 2^53 - 1; as it was read
-- ARGV[4]      claim: 0 to 2^53 - 1; 0 if the task is not claimed
--
-- {outcome}  0 stale, 1 removed, 2 leased
--
-- flags: allow-oom
verb('queue_dequeue', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    if #ARGV ~= 4 then return wrong.count('arguments', #ARGV, 4) end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if not is.name(ARGV[2]) then
      return wrong.argument(2, 'id', LIMITS.name)
    end
    if not is.whole(ARGV[3], 0, 9007199254740991) then
      return wrong.argument(3, 'revision', '0 to 2^53 - 1')
    end
    if not is.whole(ARGV[4], 0, 9007199254740991) then
      return wrong.argument(4, 'claim', '0 to 2^53 - 1')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
  local answer = remembered(once)
  if answer then return answer end
  if reap(q) then return AGAIN end
  local t, claim, outcome = load(q, ARGV[2]), tonumber(ARGV[4]), 0
  if t then
    local leased, same = has(t, 1), t.revision == tonumber(ARGV[3])
    if leased and claim ~= 0 and t.claim == claim or not leased and claim == 0 and same then
      if not promote(q, t, true) then
        remove(q, t, true)
        events.note(q, now, t.id, 5)
        has_ended(q, t.id, now, 5, '')
      end
      outcome = 1
    elseif leased and claim == 0 and same then
      outcome = 2
    end
  end
  finish(q)
  return remember(once, { outcome })
end)

-- Enqueues tasks in the order given, for one or more requests.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- KEYS[40]     the uniqueness windows
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; '' for a further task of the same request
--                id: name
--                terms: terms
--                body: body
--
-- {{outcome, ...}, ...}  one list per request. It has for each task:
--   1, revision      added
--   2, revision      kept: the task under this id stays as it is
--   3, revision      replaced
--   4, capacity      full
--   5, capacity      dropped, because the queue is full
--   6, revision, id  added, and the task with that id was dropped for it
--   7, until         enqueued recently: the id is unique until then, µs
--   8, reason, id    refused. 0: the dependency with that id is unknown. 1: the batch with that id is not
--                    open. 2: a task with that id is in the way
verb('queue_enqueue', {}, { 'queue', 'answers', 'unique' }, function()
  do
    local times = #ARGV / 4
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '0 and 4 for each task, 1 to 1000 of them')
    end
    for at = 1, #ARGV, 4 do
      if not (ARGV[at] == '' or #ARGV[at] == 8) then
        return wrong.argument(at, 'op', '8 bytes or \'\'')
      end
      if not is.name(ARGV[at + 1]) then
        return wrong.argument(at + 1, 'id', LIMITS.name)
      end
      if not is.terms(ARGV[at + 2]) then
        return wrong.argument(at + 2, 'terms', LIMITS.terms)
      end
      if not is.body(ARGV[at + 3]) then
        return wrong.argument(at + 3, 'body', LIMITS.body)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local WIDTH = 4
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.enqueue, WIDTH)
  local answered = remembered_all(once)
  if once.known == #once.ops then return answered end
  for request = 1, #once.ops do
    local from, to = once.firsts[request], (once.firsts[request + 1] or #ARGV + 1) - 1
    if not answered[request] and asks_too_late(q, from + 2, to, WIDTH) then return TOO_LATE end
  end
  touch(q)
  if reap(q) then return AGAIN end

  local function answer_item(answer, at)
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = put_asked(q, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  end

  local ids = arguments(2, WIDTH)
  fetch(q.records, ids)
  fetch_unique(q, KEYS[40], ids)
  local answers = answer_each(once, WIDTH, answer_item)
  write_periods(q)
  finish(q)
  return remember_all(once, answers)
end)

-- Returns the schedules that are due, by moment, and when the next one will be.
--
-- KEYS[1-3]  the schedules
-- ARGV[1]    how many: 1 to 1,000
--
-- {now, next or 0, id, schedule, ...}
--
-- flags: no-writes
verb('queue_due_schedules', { 'no-writes' }, { 'schedules' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.whole(ARGV[1], 1, 1000) then
      return wrong.argument(1, 'how many', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local of = schedule_keys(1)
  local ids = redis.call('ZRANGEBYSCORE', of.moments, '-inf', now_text(), 'LIMIT', '0', ARGV[1])
  local after = redis.call('ZRANGE', of.moments, #ids, #ids, 'WITHSCORES')
  local answer = { now, tonumber(after[2]) or 0 }
  for _, id in ipairs(ids) do
    answer[#answer + 1], answer[#answer + 2] = id, redis.call('HGET', of.schedules, id)
  end
  return answer
end)

-- Returns events of a queue, by number.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     after: 0 to 2^53 - 1; only numbers greater than this
-- ARGV[2]     at most: 1 to 1,000
--
-- {first, latest, number, event, ...}  first: number of the first event kept, or of the next one if none is
--                                      latest: number of the latest event of all
--                                      number: number of the first event in this answer; the others follow without gaps
--
-- flags: allow-oom
verb('queue_events', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not is.whole(ARGV[1], 0, 9007199254740991) then
      return wrong.argument(1, 'after', '0 to 2^53 - 1')
    end
    if not is.whole(ARGV[2], 1, 1000) then
      return wrong.argument(2, 'at most', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  finish(q)
  local first, latest = events.range(q)
  local from, fields = math.max(first, tonumber(ARGV[1]) + 1), {}
  for number = from, math.min(latest, from + tonumber(ARGV[2]) - 1) do
    fields[#fields + 1] = int(number)
  end
  local kept = #fields > 0 and redis.call('HMGET', q.events, unpack(fields)) or {}
  return { first, latest, from, unpack(kept) }
end)

-- Extends the leases of claimed tasks, and stores their progress.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     lease: 10,000 to 86,400,000,000 µs; from now
-- ARGV[2..]   for each task, 1 to 1,000 of them:
--               id: name
--               claim: 0 to 2^53 - 1; the claim number
--               noted: 0 or 1; 1 to store the progress that follows, 0 to keep what was stored before
--               percent: 0 to 100 or ''; progress, '' if it is not known
--               note: label; what the task is doing
--
-- {outcome, ...}  one per task: 0 lost, 1 extended, 2 extended, and its cancellation was requested
--
-- flags: allow-oom
verb('queue_extend', { 'allow-oom' }, { 'queue' }, function()
  do
    local times = (#ARGV - 1) / 5
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '1 and 5 for each task, 1 to 1000 of them')
    end
    if not is.whole(ARGV[1], 10000, 86400000000) then
      return wrong.argument(1, 'lease', '10,000 to 86,400,000,000 µs')
    end
    for at = 2, #ARGV, 5 do
      if not is.name(ARGV[at]) then
        return wrong.argument(at, 'id', LIMITS.name)
      end
      if not is.whole(ARGV[at + 1], 0, 9007199254740991) then
        return wrong.argument(at + 1, 'claim', '0 to 2^53 - 1')
      end
      if not is.whole(ARGV[at + 2], 0, 1) then
        return wrong.argument(at + 2, 'noted', '0 or 1')
      end
      if not (ARGV[at + 3] == '' or is.whole(ARGV[at + 3], 0, 100)) then
        return wrong.argument(at + 3, 'percent', '0 to 100 or \'\'')
      end
      if not is.label(ARGV[at + 4]) then
        return wrong.argument(at + 4, 'note', LIMITS.label)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local WIDTH, NO_PERCENT = 5, 255
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  fetch_tasks(q, arguments(2, WIDTH))
  local answer, till = {}, now + tonumber(ARGV[1])
  for at = 2, #ARGV, WIDTH do
    local t, outcome = load(q, ARGV[at]), 0
    if t and has(t, 1) and t.claim == tonumber(ARGV[at + 1]) then
      t.till = till
      if ARGV[at + 2] == '1' then
        t.note = string.char(tonumber(ARGV[at + 3]) or NO_PERCENT) .. ARGV[at + 4]
        t.flags = bit.bor(t.flags, 128)
      end
      store_run(q, t)
      add_at(q.leases, till, lease_of(t))
      outcome = has(t, 2) and 2 or 1
    end
    table.insert(answer, outcome)
  end
  finish(q)
  return answer
end)

-- Completes claimed tasks as done or discarded, with their results, which are kept if the queue has a retention. For
-- one or more requests.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; '' for a further task of the same request
--                id: 1 to 200 bytes
--                claim: 1 to 16 bytes; the claim number, in digits
--                how: 0 or 1; 0 done, 1 discarded
--                result: body or ''; at most 64 KiB of payload, '' for none
--
-- {{outcome, ...}, ...}  one list per request, as `rushgate_1_queue_complete` answers
--
-- flags: allow-oom
verb('queue_finish', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    local times = #ARGV / 5
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '0 and 5 for each task, 1 to 1000 of them')
    end
    for at = 1, #ARGV, 5 do
      if not (ARGV[at] == '' or #ARGV[at] == 8) then
        return wrong.argument(at, 'op', '8 bytes or \'\'')
      end
      if not (#ARGV[at + 1] >= 1 and #ARGV[at + 1] <= 200) then
        return wrong.argument(at + 1, 'id', '1 to 200 bytes')
      end
      if not (#ARGV[at + 2] >= 1 and #ARGV[at + 2] <= 16) then
        return wrong.argument(at + 2, 'claim', '1 to 16 bytes')
      end
      if not is.whole(ARGV[at + 3], 0, 1) then
        return wrong.argument(at + 3, 'how', '0 or 1')
      end
      if not (ARGV[at + 4] == '' or is.body(ARGV[at + 4])) then
        return wrong.argument(at + 4, 'result', LIMITS.body)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local WIDTH, RESULT_MAX = 5, 65536
  for at = 5, #ARGV, WIDTH do
    local length = string.byte(ARGV[at]) or 0
    if #ARGV[at] > RESULT_MAX + 1 + (length < 255 and length or 0) then
      return { err = 'INVALID the result has more than 65,536 bytes; store it elsewhere' }
    end
  end
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.finish, WIDTH)
  local answered = remembered_all(once)
  if once.known == #once.ops then return answered end
  if reap(q) then return AGAIN end
  fetch(q.runs, arguments(2, WIDTH))
  local answers = complete_each(q, once, WIDTH)
  finish(q)
  return remember_all(once, answers)
end)

-- Enqueues the tasks of a schedule's due moments, and sets its next moment. A task whose id already exists stays as it
-- is. The capacity of the queue does not apply.
--
-- KEYS[1-37]   the queue
-- KEYS[38-40]  the schedules
-- ARGV[1]      id: name
-- ARGV[2]      revision: 1 to 2^53 - 1; as it was read
-- ARGV[3]      next: 0 to 2^53 - 1; moment in µs, 0 for never
-- ARGV[4..]    for each run, 0 to 1,000 of them:
--                task: name
--                due: 0 to 2^53 - 1; moment in µs
--
-- {1, added}  fired; how many tasks are new
-- {0}         stale: the schedule has another revision, is not due, or is gone. Nothing was changed
verb('queue_fire', {}, { 'queue', 'schedules' }, function()
  do
    local times = (#ARGV - 3) / 2
    if times % 1 ~= 0 or times < 0 or times > 1000 then
      return wrong.count('arguments', #ARGV, '3 and 2 for each run, 0 to 1000 of them')
    end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
    if not is.whole(ARGV[2], 1, 9007199254740991) then
      return wrong.argument(2, 'revision', '1 to 2^53 - 1')
    end
    if not is.whole(ARGV[3], 0, 9007199254740991) then
      return wrong.argument(3, 'next', '0 to 2^53 - 1')
    end
    for at = 4, #ARGV, 2 do
      if not is.name(ARGV[at]) then
        return wrong.argument(at, 'task', LIMITS.name)
      end
      if not is.whole(ARGV[at + 1], 0, 9007199254740991) then
        return wrong.argument(at + 1, 'due', '0 to 2^53 - 1')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q, of = queue_keys(1), schedule_keys(38)
  local s = read_schedule(of, ARGV[1])
  local is_due = s and s.paused == 0 and s.next > 0 and s.next <= now
  if not is_due or s.revision ~= tonumber(ARGV[2]) then return { 0 } end
  touch(q)
  if reap(q) then return AGAIN end
  local added, latest = 0, 0
  for at = 4, #ARGV, 2 do
    local due = tonumber(ARGV[at + 1])
    if put(q, ARGV[at], terms(due, s.priority, 0, 0, s.max), s.body, false) == 1 then added = added + 1 end
    latest = math.max(latest, due)
  end
  s.next, s.previous = tonumber(ARGV[3]), latest > 0 and latest or s.previous
  s.revision = next_revision(q)
  store_schedule(of, s)
  finish(q)
  return { 1, added }
end)

-- Registers a process for one notification of the queue's next event.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     inbox: 16 hexadecimal digits
-- ARGV[2]     after: 0 to 2^53 - 1; the latest event that the process knows
--
-- 1  registered
-- 0  another event is the latest: read the events now
--
-- flags: allow-oom
verb('queue_follow', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not is.hexadecimal(ARGV[1], 16) then
      return wrong.argument(1, 'inbox', '16 hexadecimal digits')
    end
    if not is.whole(ARGV[2], 0, 9007199254740991) then
      return wrong.argument(2, 'after', '0 to 2^53 - 1')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  events.write(q)
  local _, latest = events.range(q)
  local is_latest = latest == tonumber(ARGV[2])
  if is_latest then events.leave_inbox(q, '', ARGV[1]) end
  finish(q)
  return is_latest and 1 or 0
end)

-- Returns claimed tasks to the queue. The attempt does not count.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2..]    for each task, 1 to 1,000 of them:
--                id: name
--                claim: 0 to 2^53 - 1; the claim number
--                delay: 0 to 34,560,000,000,000 µs
--
-- {outcome, ...}  one per task: 0 stale, 1 waiting, 2 canceled
--
-- flags: allow-oom
verb('queue_release', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    local times = (#ARGV - 1) / 3
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '1 and 3 for each task, 1 to 1000 of them')
    end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    for at = 2, #ARGV, 3 do
      if not is.name(ARGV[at]) then
        return wrong.argument(at, 'id', LIMITS.name)
      end
      if not is.whole(ARGV[at + 1], 0, 9007199254740991) then
        return wrong.argument(at + 1, 'claim', '0 to 2^53 - 1')
      end
      if not is.whole(ARGV[at + 2], 0, 34560000000000) then
        return wrong.argument(at + 2, 'delay', '0 to 34,560,000,000,000 µs')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.release)
  local answer = remembered(once)
  if answer then return answer end
  if reap(q) then return AGAIN end
  answer = {}
  fetch_tasks(q, arguments(2, 3))
  for at = 2, #ARGV, 3 do
    local t, outcome = load(q, ARGV[at]), 0
    if t and has(t, 1) and t.claim == tonumber(ARGV[at + 1]) then
      if promote(q, t, true) then
        outcome = 1
      elseif has(t, 2) then
        finish_task(q, t, now, 2, '', true)
        outcome = 2
      else
        local delay, due = tonumber(ARGV[at + 2]), nil
        if delay > 0 then
          remember_run(t, now, 2, '')
          due = now + delay
        end
        events.note(q, now, t.id, events.released, t.attempts, due or t.due)
        t.attempts = t.attempts - 1
        back(q, t, due, true)
        outcome = 1
      end
    end
    table.insert(answer, outcome)
  end
  finish(q)
  return remember(once, answer)
end)

-- Clears the uniqueness window of an id, which may then be enqueued again at once. A live task stays as it is.
--
-- KEYS[1]    the uniqueness windows
-- KEYS[2-3]  the replay cache
-- ARGV[1]    op: 8 bytes
-- ARGV[2]    id: name
--
-- {until}  when the window would have ended, µs; 0 if there was none
--
-- flags: allow-oom
verb('queue_clear_unique', { 'allow-oom' }, { 'unique', 'answers' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if not is.name(ARGV[2]) then
      return wrong.argument(2, 'id', LIMITS.name)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local once = replay_keys(2, ARGV[1], op_of.other)
  local answer = remembered(once)
  if answer then return answer end
  local till = unique_until(KEYS[1], ARGV[2])
  redis.call('ZREM', KEYS[1], ARGV[2])
  return remember(once, { till or 0 })
end)

-- Sets the limits of a queue.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     bound: 0 to 2^53 - 1 or ''; capacity: the most tasks in the queue, '' for no limit
-- ARGV[2]     concurrency: 1 to 1,000,000 or ''; the most leased tasks, '' for no limit
-- ARGV[3]     rate: 1 to 10,000 or ''; sliding window: the most tasks that start in the time below, '' for no limit
-- ARGV[4]     time: 1,000 to 34,560,000,000,000 or ''; of the rate, µs
-- ARGV[5]     concurrency per key: 1 to 1,000,000 or ''; the same per key; at most 1 if first in, first out
-- ARGV[6]     rate per key: 1 to 10,000 or ''; likewise
-- ARGV[7]     time per key: 1,000 to 34,560,000,000,000 or ''; likewise
-- ARGV[8]     first in, first out: 0 or 1; 1 to run one task of a key at a time; a failed task keeps its place
-- ARGV[9]     age kept: 1,000 to 34,560,000,000,000 or ''; retention of finished tasks, µs; '' to keep none
-- ARGV[10]    count kept: 1 to 1,000,000 or ''; the most finished tasks that are kept
-- ARGV[11]    overflow: 0 to 2; when the queue is full: 0 refuse the new task, 1 drop it, 2 drop the oldest task
-- ARGV[12]    events: 1 to 100,000 or ''; how many of the latest events are kept, '' for none
--
-- 1
-- AGAIN  more is left to delete or to index: send the call again
verb('queue_limit', {}, { 'queue' }, function()
  do
    if #ARGV ~= 12 then return wrong.count('arguments', #ARGV, 12) end
    if not (ARGV[1] == '' or is.whole(ARGV[1], 0, 9007199254740991)) then
      return wrong.argument(1, 'bound', '0 to 2^53 - 1 or \'\'')
    end
    if not (ARGV[2] == '' or is.whole(ARGV[2], 1, 1000000)) then
      return wrong.argument(2, 'concurrency', '1 to 1,000,000 or \'\'')
    end
    if not (ARGV[3] == '' or is.whole(ARGV[3], 1, 10000)) then
      return wrong.argument(3, 'rate', '1 to 10,000 or \'\'')
    end
    if not (ARGV[4] == '' or is.whole(ARGV[4], 1000, 34560000000000)) then
      return wrong.argument(4, 'time', '1,000 to 34,560,000,000,000 or \'\'')
    end
    if not (ARGV[5] == '' or is.whole(ARGV[5], 1, 1000000)) then
      return wrong.argument(5, 'concurrency per key', '1 to 1,000,000 or \'\'')
    end
    if not (ARGV[6] == '' or is.whole(ARGV[6], 1, 10000)) then
      return wrong.argument(6, 'rate per key', '1 to 10,000 or \'\'')
    end
    if not (ARGV[7] == '' or is.whole(ARGV[7], 1000, 34560000000000)) then
      return wrong.argument(7, 'time per key', '1,000 to 34,560,000,000,000 or \'\'')
    end
    if not is.whole(ARGV[8], 0, 1) then
      return wrong.argument(8, 'first in, first out', '0 or 1')
    end
    if not (ARGV[9] == '' or is.whole(ARGV[9], 1000, 34560000000000)) then
      return wrong.argument(9, 'age kept', '1,000 to 34,560,000,000,000 or \'\'')
    end
    if not (ARGV[10] == '' or is.whole(ARGV[10], 1, 1000000)) then
      return wrong.argument(10, 'count kept', '1 to 1,000,000 or \'\'')
    end
    if not is.whole(ARGV[11], 0, 2) then
      return wrong.argument(11, 'overflow', '0 to 2')
    end
    if not (ARGV[12] == '' or is.whole(ARGV[12], 1, 100000)) then
      return wrong.argument(12, 'events', '1 to 100,000 or \'\'')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  if (ARGV[9] == '') ~= (ARGV[10] == '') then
    return { err = 'INVALID the retention age and the retention count must be set together' }
  end
  if ARGV[8] == '1' and ARGV[5] ~= '' and ARGV[5] ~= '1' then
    return wrong.argument(5, 'concurrency per key', "1 or '' if the tasks of a key are first in, first out")
  end
  -- Waiting tasks that one call reads in order to index them.
  local PAGE = 500

  -- Continues to index waiting tasks by age. True if more are left.
  local function continue_by_age(q)
    local from = redis.call('HGET', q.meta, 'age_cursor')
    if not from then return false end
    write_back_queue(q)
    local page = redis.call('HSCAN', q.records.key, from, 'COUNT', PAGE)
    local found = page[2]
    for at = 1, #found, 2 do
      local id, record = found[at], found[at + 1]
      local t = task_of(id, record, redis.call('HGET', q.runs.key, id))
      if not has(t, 1) then index(q, id, record) end
    end
    if page[1] == '0' then redis.call('HDEL', q.meta, 'age_cursor') else redis.call('HSET', q.meta, 'age_cursor', page[1]) end
    return page[1] ~= '0'
  end

  -- Deletes events beyond the number to keep. True if more are left to delete.
  local function forget_events(q, most)
    local first, latest = events.range(q)
    local wanted, fields = math.max(first, latest - most + 1), {}
    local to = math.min(wanted, first + 2000)
    for number = first, to - 1 do
      fields[#fields + 1] = int(number)
    end
    in_chunks('HDEL', q.events, fields)
    redis.call('HSET', q.meta, 'first_event', int(to))
    return to < wanted
  end

  local q = queue_keys(1)
  touch(q)
  if reap(q) then return AGAIN end

  -- Events of leases that expired before this call follow the old setting.
  events.write(q)
  if q.events_n ~= tonumber(ARGV[12]) and forget_events(q, tonumber(ARGV[12]) or 0) then
    finish(q)
    return AGAIN
  end

  -- Delete first what the old retention no longer covers, so that the new one does not bring it back.
  local told = q.keep_n
  local more = told and finished.forget(q, 2000)
  if not more then
    q.keep_us, q.keep_n = tonumber(ARGV[9]), tonumber(ARGV[10])
    more = finished.forget(q, 2000)
  end
  if more then
    finish(q)
    return AGAIN
  end

  -- From this call on, new waiting tasks are indexed by age. Existing ones follow page by page.
  local by_age = tonumber(ARGV[11]) == 2
  if by_age and q.overflow ~= 2 then
    redis.call('UNLINK', q.by_age)
    redis.call('HSET', q.meta, 'age_cursor', 0)
  end

  local words = { ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12] }
  for at, word in ipairs(words) do
    words[at] = word == '' and '-' or word
  end
  local text = table.concat(words, ' ')
  local old_rate = { q.rate_n, q.rate_us }
  local old_key = { n = q.key_rate_n, us = q.key_rate_us, most = q.key_concurrency }
  read_limits(q, text)
  redis.call('HSET', q.meta, 'capacity', ARGV[1], 'limits', text)
  -- Without the field, calls on a queue without limits have nothing to parse.
  if text == '- - - - - - 0 - - 0 -' then redis.call('HDEL', q.meta, 'limits') end

  -- A rate that changes starts with an empty history.
  local starts = hash_of(q, 'starts')
  if old_rate[1] ~= q.rate_n or old_rate[2] ~= q.rate_us then set_field(starts, '', false) end
  local same_rate = old_key.n == q.key_rate_n and old_key.us == q.key_rate_us
  if not same_rate then
    for _, key in ipairs(redis.call('ZRANGE', q.starts_until, 0, -1)) do
      set_field(starts, key, false)
    end
    redis.call('DEL', q.starts_until)
  end
  if not same_rate or old_key.most ~= q.key_concurrency then
    local groups = hash_of(q, 'groups')
    write_back(groups)
    for _, name in ipairs(redis.call('HKEYS', groups.key)) do
      local key, priority = string.match(name, '^(.+)%z(.)$')
      touch_line(q, { key = key, priority = string.byte(priority) })
    end
    seat_touched(q, true)
  end
  if told and not q.keep_n then
    -- Without a retention there are no more notifications, so all watchers are notified now.
    local watchers = hash_of(q, 'watchers')
    write_back(watchers)
    for _, id in ipairs(redis.call('HKEYS', watchers.key)) do
      if id ~= '' then events.tell(q, id, 'T' .. id) end
    end
  end
  if by_age then
    more = continue_by_age(q)
  else
    redis.call('HDEL', q.meta, 'age_cursor')
    redis.call('UNLINK', q.by_age)
  end
  q.woken = math.max(q.woken, 8)
  finish(q)
  return more and AGAIN or 1
end)

-- Lists live tasks, or the tasks in one state, a page at a time.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     state: scheduled, ready, leased, blocked, done or ''; '' for all live tasks
-- ARGV[2]     prefix: text of at most 200 bytes; only ids that begin with it
-- ARGV[3]     at most: 1 to 1,000
-- ARGV[4]     position: 1 to 65,536 bytes or ''; '' for the first page, and otherwise from the answer before
--
-- {now, position, id, record, run or '', moment, ...}  as rushgate_1_queue_tasks returns tasks
--   position: of the next page; '' for none. A page may be short or empty although more follow
--
-- The error `CURSOR` for a position of another state.
--
-- flags: allow-oom
verb('queue_list', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 4 then return wrong.count('arguments', #ARGV, 4) end
    if not (ARGV[1] == '' or ARGV[1] == 'scheduled' or ARGV[1] == 'ready' or ARGV[1] == 'leased' or ARGV[1] == 'blocked' or ARGV[1] == 'done') then
      return wrong.argument(1, 'state', 'scheduled, ready, leased, blocked, done or \'\'')
    end
    if not is.text(ARGV[2], 200) then
      return wrong.argument(2, 'prefix', 'text of at most 200 bytes')
    end
    if not is.whole(ARGV[3], 1, 1000) then
      return wrong.argument(3, 'at most', '1 to 1,000')
    end
    if not (ARGV[4] == '' or #ARGV[4] >= 1 and #ARGV[4] <= 65536) then
      return wrong.argument(4, 'position', '1 to 65,536 bytes or \'\'')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]

  -- The most entries that one call looks at, and how many it reads at a time.
  local LOOKED_MAX, STEP = 1000, 20
  -- Records of this size together are the last of a page.
  local BYTES_MAX = 1048576
  -- Up to this number, live tasks are listed by id. Redis may keep such a hash as a listpack, which HSCAN reads at once.
  local SMALL_MAX = 512
  -- Kinds of positions among all live tasks: behind an id, or a cursor of HSCAN and the ids that it has listed already.
  local BY_ID, SCAN = 'I', 'S'
  local FOREIGN = { err = 'CURSOR is not of this listing; pass the next of its previous page' }

  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  finish(q)
  local state, prefix, most, position = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
  local answer, n, looked, bytes = { now, '' }, 0, 0, 0

  -- How many entries the call may read next.
  local function room()
    return bytes < BYTES_MAX and math.max(math.min(STEP, most - n, LOOKED_MAX - looked), 0) or 0
  end

  local function has_prefix(id)
    return string.sub(id, 1, #prefix) == prefix
  end

  local function show(id, record, run, moment)
    n, bytes = n + 1, bytes + #record + #run
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = id, record, run, moment
  end

  -- Shows a live task, unless it is to be blocked and is not.
  local function show_live(id)
    local record, run = read(q.records, id), read(q.runs, id)
    local moment = moment_shown(q, id, record, run)
    if state ~= 'blocked' or moment == '' then show(id, record, run or '', moment) end
  end

  -- Whether one text comes before another by its bytes: Lua compares as the locale of the server does.
  local function precedes(one, other)
    for at = 1, math.min(#one, #other) do
      local a, b = string.byte(one, at), string.byte(other, at)
      if a ~= b then return a < b end
    end
    return #one < #other
  end

  -- The same for ids, in the order of the locale, which takes less time.
  local function is_less(one, other)
    if one < other then return true end
    return not (other < one) and precedes(one, other)
  end

  local function list_by_id(after)
    local ids = {}
    for _, id in ipairs(redis.call('HKEYS', q.records.key)) do
      if is_less(after, id) and has_prefix(id) then ids[#ids + 1] = id end
    end
    table.sort(ids, is_less)
    local upto = 0
    while upto < #ids do
      local read_n = room()
      if read_n == 0 then return BY_ID .. ids[upto] end
      local some = { unpack(ids, upto + 1, math.min(upto + read_n, #ids)) }
      fetch_tasks(q, some)
      for _, id in ipairs(some) do
        show_live(id)
      end
      upto, looked = upto + #some, looked + #some
    end
    return ''
  end

  local function scan(cursor, listed)
    local pattern = string.gsub(prefix, '[%*%?%[%]%^\\-]', '\\%0') .. '*'
    repeat
      if room() == 0 then return SCAN .. cursor .. listed end
      local before, ids = {}, {}
      for id in string.gmatch(listed, ' ([^ ]+)') do
        before[id] = true
      end
      -- Redis may return some more than it is asked for.
      local count = math.min(room(), math.ceil((most - n) / 2))
      local found = redis.call('HSCAN', q.records.key, cursor, 'MATCH', pattern, 'COUNT', count)
      local fields = found[2]
      for at = 1, #fields, 2 do
        local id = fields[at]
        if not before[id] then
          ids[#ids + 1], q.records.values[id] = id, fields[at + 1]
        end
      end
      looked = looked + math.max(count, #fields / 2)
      fetch(q.runs, ids)
      for _, id in ipairs(ids) do
        if n == most then return SCAN .. cursor .. listed end
        show_live(id)
        listed = listed .. ' ' .. id
      end
      cursor, listed = found[1], ''
    until cursor == '0'
    return ''
  end

  local function list_live()
    local key, after = q.records.key, string.match(position, '^I(.+)$')
    local cursor, listed = string.match(position, '^S(%d+)(.*)$')
    if position ~= '' and not after and not (cursor and #cursor < 20) then return nil end
    if cursor then return scan(cursor, listed) end
    local is_small = redis.call('HLEN', key) <= SMALL_MAX or redis.call('OBJECT', 'ENCODING', key) == 'listpack'
    -- If the queue has grown meanwhile, the listing begins again.
    if is_small then return list_by_id(after or '') end
    return scan('0', '')
  end

  -- Sets of the tasks in a state, in the order in which they are listed. Each has a number; the ranks between which it has
  -- the state, from `first` to before `last`; and the length of what is before the id in a member.
  local function sets_of_state()
    local sets = {}
    local function add_set(number, key, prefix_bytes, first, last)
      sets[#sets + 1] = {
        number = number, key = key, prefix_bytes = prefix_bytes, first = first, last = last or redis.call('ZCARD', key),
      }
    end
    if state == 'leased' then
      add_set(0, q.leases.key, 8, 0)
    elseif state == 'done' then
      if q.keep_n then add_set(0, q.done_ids, 0, finished.count(q, now - q.keep_us)) end
    elseif state == 'blocked' then
      add_set(0, q.blocked, nil, 0)
      add_set(1, q.held, 0, 0)
    else
      for priority = 0, 9 do
        if is_used(q, priority) then
          local key = waiting(q, priority).key
          local due = redis.call('ZCOUNT', key, '-inf', now_text())
          if state == 'ready' then
            add_set(2 * priority, key, 7, 0, due)
          else
            add_set(2 * priority, key, 7, due)
          end
        end
        if priority == 5 and state == 'ready' and is_used(q, 10) then
          add_set(2 * priority + 1, q.at_once, 7, 0, at_once.length(q))
          sets[#sets].is_list = true
        end
      end
    end
    return sets
  end

  -- Reads members of a set by rank, and their scores. The members of the list are in order too.
  local function read_members(set, first, read_n)
    local members, scores = {}, {}
    if set.is_list then return redis.call('LRANGE', set.key, first, first + read_n - 1), scores end
    local found = redis.call('ZRANGE', set.key, first, first + read_n - 1, 'WITHSCORES')
    for at = 1, #found, 2 do
      members[#members + 1], scores[#members + 1] = found[at], tonumber(found[at + 1])
    end
    return members, scores
  end

  -- The rank of the first member behind a score and a member, which may be gone.
  local function rank_behind(set, score, member)
    local from, to = set.first, set.last
    while from < to do
      local middle = math.floor((from + to) / 2)
      local members, scores = read_members(set, middle, 1)
      local its_score = scores[1] or score
      if its_score > score or its_score == score and precedes(member, members[1]) then
        to = middle
      else
        from = middle + 1
      end
    end
    return from
  end

  local function id_of(set, member)
    -- A member of `blocked` begins with a key of any length, and a byte 0.
    local prefix_bytes = set.prefix_bytes or string.find(member, '%z') + 1 + 2 * 7
    return string.sub(member, prefix_bytes + 1)
  end

  local function show_members(set, members)
    local ids, of_ids = {}, {}
    for _, member in ipairs(members) do
      local id = id_of(set, member)
      if has_prefix(id) then ids[#ids + 1], of_ids[#ids + 1] = id, member end
    end
    if not ids[1] then return end
    if state == 'done' then
      for at, kept in ipairs(redis.call('HMGET', q.done, unpack(ids))) do
        show(ids[at], '', kept, 0)
      end
      return
    end
    fetch_tasks(q, ids)
    for at, id in ipairs(ids) do
      local record = read(q.records, id)
      local is_here = not set.is_list or at_once.is_live(of_ids[at], record, read(q.runs, id))
        and struct.unpack('>I7', record, 14) <= now
      if is_here then show_live(id) end
    end
  end

  local function list_state()
    local number, score, member = 0, nil, nil
    if position ~= '' then
      if #position <= 1 + 7 then return nil end
      number, score, member = string.byte(position), (struct.unpack('>I7', position, 2)), string.sub(position, 2 + 7)
    end
    for _, set in ipairs(sets_of_state()) do
      local rank = set.first
      if score and set.number == number then rank = rank_behind(set, score, member) end
      while set.number >= number and rank < set.last do
        local read_n = math.min(room(), set.last - rank)
        if read_n == 0 then return position end
        local members, scores = read_members(set, rank, read_n)
        show_members(set, members)
        rank, looked = rank + read_n, looked + read_n
        position = struct.pack('>I1I7', set.number, scores[#members] or 0) .. members[#members]
      end
    end
    return ''
  end

  local next_position
  if state == '' then next_position = list_live() else next_position = list_state() end
  if not next_position then return FOREIGN end
  answer[2] = next_position
  return answer
end)

-- Registers a process for one notification that a task can be claimed. Each task wakes one process.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     inbox: 16 hexadecimal digits
-- ARGV[2]     seen: 0 to 2^53 - 1 or ''; the wake-up count that the process knows, '' for none
--
-- {missed, wake-ups}  if the process missed wake-ups it is not registered: claim first
verb('queue_listen', {}, { 'queue' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not is.hexadecimal(ARGV[1], 16) then
      return wrong.argument(1, 'inbox', '16 hexadecimal digits')
    end
    if not (ARGV[2] == '' or is.whole(ARGV[2], 0, 9007199254740991)) then
      return wrong.argument(2, 'seen', '0 to 2^53 - 1 or \'\'')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  local missed = ARGV[2] == '' and 0 or math.max(q.wakes - tonumber(ARGV[2]), 0)
  if missed == 0 then
    redis.call('ZADD', q.listeners, now, ARGV[1])
  end
  return { missed, q.wakes }
end)

-- Pauses or resumes a queue.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     stop: 0 or 1; 1 to pause, 0 to resume
--
-- 1
verb('queue_pause', {}, { 'queue' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.whole(ARGV[1], 0, 1) then
      return wrong.argument(1, 'stop', '0 or 1')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  touch(q)
  if reap(q) then return AGAIN end
  q.paused = ARGV[1] == '1'
  redis.call('HSET', q.meta, 'paused', ARGV[1])
  write_back_queue(q)
  if is_used(q, 10) then q.woken = q.woken + math.max(at_once.length(q) - q.skipped, 0) end
  for priority = 0, 9 do
    if is_used(q, priority) then
      q.woken = q.woken + redis.call('ZCOUNT', waiting(q, priority).key, '-inf', now_text())
    end
  end
  -- At least one process is woken, because none learned of due times during the pause.
  q.woken = math.max(q.woken, 1)
  finish(q)
  return 1
end)

-- Removes the first due tasks and returns them.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      how many: 1 to 1,000
--
-- {id, record, run or '', ...}
--
-- flags: allow-oom
verb('queue_pop', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if not is.whole(ARGV[2], 1, 1000) then
      return wrong.argument(2, 'how many', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.claim)
  local answer = remembered(once)
  if answer then return answer end
  if prepare(q) then return AGAIN end
  answer = {}
  if not q.paused then
    local given = assign(q, tonumber(ARGV[2]), false)
    for at, id in ipairs(given.ids) do
      local record, run = given.records[at], given.runs[at]
      set_field(q.records, id, false)
      if run then set_field(q.runs, id, false) end
      if q.keep_n then events.tell(q, id, 'T' .. id) end
      events.note(q, now, id, 4)
      forget_waits(q, id, record)
      has_ended(q, id, now, 4, '')
      table.insert(answer, id)
      table.insert(answer, record)
      table.insert(answer, run or '')
    end
  end
  finish(q)
  return remember(once, answer)
end)

-- Enqueues tasks from an outbox, in the order given: those whose number is greater than all relayed before, up to the
-- first for which there is no room. Sent again, the call continues there. Tasks whose id is in a uniqueness window are
-- skipped.
--
-- KEYS[1-37]  the queue
-- KEYS[38]    the uniqueness windows
-- ARGV[1]     outbox: name
-- ARGV[2..]   for each task, 0 to 1,000 of them:
--               number: 1 to 2^53 - 1; increases from task to task
--               id: name
--               terms: terms
--               body: body
--
-- upto  the highest number relayed from the outbox, by this or an earlier call; 0 for none
verb('queue_relay', {}, { 'queue', 'unique' }, function()
  do
    local times = (#ARGV - 1) / 4
    if times % 1 ~= 0 or times < 0 or times > 1000 then
      return wrong.count('arguments', #ARGV, '1 and 4 for each task, 0 to 1000 of them')
    end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'outbox', LIMITS.name)
    end
    for at = 2, #ARGV, 4 do
      if not is.whole(ARGV[at], 1, 9007199254740991) then
        return wrong.argument(at, 'number', '1 to 2^53 - 1')
      end
      if not is.name(ARGV[at + 1]) then
        return wrong.argument(at + 1, 'id', LIMITS.name)
      end
      if not is.terms(ARGV[at + 2]) then
        return wrong.argument(at + 2, 'terms', LIMITS.terms)
      end
      if not is.body(ARGV[at + 3]) then
        return wrong.argument(at + 3, 'body', LIMITS.body)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local WIDTH = 4
  local q, field = queue_keys(1), 'relayed:' .. ARGV[1]
  local upto = tonumber(redis.call('HGET', q.meta, field) or 0)
  local before = upto
  if (tonumber(ARGV[#ARGV - WIDTH + 1]) or 0) <= before then return before end
  for at = 2, #ARGV, WIDTH do
    if tonumber(ARGV[at]) > before and asks_too_late(q, at + 2, at + 2, WIDTH) then return TOO_LATE end
  end
  touch(q)
  if reap(q) then return AGAIN end
  local ids = arguments(3, WIDTH)
  fetch(q.records, ids)
  fetch_unique(q, KEYS[38], ids)
  for at = 2, #ARGV, WIDTH do
    local number = tonumber(ARGV[at])
    if number > upto then
      if put_asked(q, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]) == 4 then break end
      upto = number
    end
  end
  if upto > before then redis.call('HSET', q.meta, field, int(upto)) end
  write_periods(q)
  finish(q)
  return upto
end)

-- Answers requests that were executed before, as `rushgate_1_queue_enqueue` does, when the server's memory is full. For a
-- new request, the error is `OOM`.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- KEYS[40]     the uniqueness windows
-- ARGV[1..]    for each task, 1 to 1,000 of them:
--                op: 8 bytes or ''; '' for a further task of the same request
--                id: name
--                terms: terms
--                body: body
--
-- {{outcome, ...}, ...}  one list per request, as `rushgate_1_queue_enqueue` answers
--
-- flags: no-writes
verb('queue_replay', { 'no-writes' }, { 'queue', 'answers', 'unique' }, function()
  do
    local times = #ARGV / 4
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '0 and 4 for each task, 1 to 1000 of them')
    end
    for at = 1, #ARGV, 4 do
      if not (ARGV[at] == '' or #ARGV[at] == 8) then
        return wrong.argument(at, 'op', '8 bytes or \'\'')
      end
      if not is.name(ARGV[at + 1]) then
        return wrong.argument(at + 1, 'id', LIMITS.name)
      end
      if not is.terms(ARGV[at + 2]) then
        return wrong.argument(at + 2, 'terms', LIMITS.terms)
      end
      if not is.body(ARGV[at + 3]) then
        return wrong.argument(at + 3, 'body', LIMITS.body)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local once = replay_keys(38, ARGV[1], op_of.enqueue, 4)
  local answered = remembered_all(once)
  return once.known == #once.ops and answered or FULL
end)

-- Ends claimed tasks that failed: each is retried after a delay or becomes a dead letter.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2..]    for each task, 1 to 1,000 of them:
--                id: name
--                claim: 0 to 2^53 - 1; the claim number
--                delay: 0 to 34,560,000,000,000 µs
--                give up: 0 or 1; 1 to make it a dead letter now
--                error: text of at most 2,000 bytes
--
-- {outcome, due or 0, ...}  for each task: 0 stale, 1 scheduled, 2 dead, 3 requeued, because a pending replacement took
--                           over, 4 canceled
--
-- flags: allow-oom
verb('queue_retry', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    local times = (#ARGV - 1) / 5
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '1 and 5 for each task, 1 to 1000 of them')
    end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    for at = 2, #ARGV, 5 do
      if not is.name(ARGV[at]) then
        return wrong.argument(at, 'id', LIMITS.name)
      end
      if not is.whole(ARGV[at + 1], 0, 9007199254740991) then
        return wrong.argument(at + 1, 'claim', '0 to 2^53 - 1')
      end
      if not is.whole(ARGV[at + 2], 0, 34560000000000) then
        return wrong.argument(at + 2, 'delay', '0 to 34,560,000,000,000 µs')
      end
      if not is.whole(ARGV[at + 3], 0, 1) then
        return wrong.argument(at + 3, 'give up', '0 or 1')
      end
      if not is.text(ARGV[at + 4], 2000) then
        return wrong.argument(at + 4, 'error', 'text of at most 2,000 bytes')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.retry)
  local answer = remembered(once)
  if answer then return answer end
  if reap(q) then return AGAIN end
  answer = {}
  fetch_tasks(q, arguments(2, 5))
  for at = 2, #ARGV, 5 do
    local t, outcome, due = load(q, ARGV[at]), 0, 0
    if t and has(t, 1) and t.claim == tonumber(ARGV[at + 1]) then
      if promote(q, t, true) then
        outcome = 3
      elseif has(t, 2) then
        finish_task(q, t, now, 2, '', true)
        outcome = 4
      elseif ARGV[at + 3] == '1' or t.attempts >= t.max
        or t.deadline and t.deadline <= now + tonumber(ARGV[at + 2]) then
        remember_run(t, now, 0, ARGV[at + 4])
        die(q, t, now, ARGV[at + 4], true)
        outcome = 2
      else
        due = now + tonumber(ARGV[at + 2])
        remember_run(t, now, 0, ARGV[at + 4])
        events.note(q, now, t.id, events.failed, t.attempts, due, cut_error(ARGV[at + 4]))
        t.error, t.flags = ARGV[at + 4], bit.bor(t.flags, 4)
        back(q, t, due, true)
        outcome = 1
      end
    end
    table.insert(answer, outcome)
    table.insert(answer, due)
  end
  finish(q)
  return remember(once, answer)
end)

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
verb('queue_requeue_dead', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    local times = (#ARGV - 2) / 1
    if times % 1 ~= 0 or times < 0 or times > 1000 then
      return wrong.count('arguments', #ARGV, '2 and 1 for each letter, 0 to 1000 of them')
    end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if not is.whole(ARGV[2], 0, 1) then
      return wrong.argument(2, 'all', '0 or 1')
    end
    for at = 3, #ARGV, 1 do
      if not is.name(ARGV[at]) then
        return wrong.argument(at, 'id', LIMITS.name)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
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
        if byte >= 32 then
          length, head = struct.unpack('>I2', letter, head)
          byte, head = byte - 32, head + length
        end
        local body = string.sub(letter, head)
        local priority, key = line_of(byte, body, 1)
        redis.call('HDEL', q.dead, id)
        redis.call('ZREM', q.dead_ids, id)
        local of = terms(now, priority, 0, 0, max, key)
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
end)

-- Changes when a waiting task is due.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      id: name
-- ARGV[3]      due: 0 to 2^53 - 1 µs
-- ARGV[4]      from now: 0 or 1; 1 if the due time counts from now
--
-- {outcome, time or 0}  0 not found, 1 rescheduled, with the due time, 2 leased, 3 too late, with the deadline
--
-- flags: allow-oom
verb('queue_reschedule', { 'allow-oom' }, { 'queue', 'answers' }, function()
  do
    if #ARGV ~= 4 then return wrong.count('arguments', #ARGV, 4) end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if not is.name(ARGV[2]) then
      return wrong.argument(2, 'id', LIMITS.name)
    end
    if not is.whole(ARGV[3], 0, 9007199254740991) then
      return wrong.argument(3, 'due', '0 to 2^53 - 1 µs')
    end
    if not is.whole(ARGV[4], 0, 1) then
      return wrong.argument(4, 'from now', '0 or 1')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q, once = queue_keys(1), replay_keys(38, ARGV[1], op_of.other)
  local answer = remembered(once)
  if answer then return answer end
  if reap(q) then return AGAIN end
  local t, due = load(q, ARGV[2]), tonumber(ARGV[3])
  if ARGV[4] == '1' then due = now + due end
  local outcome, time = 0, 0
  if t and has(t, 1) then
    outcome = 2
  elseif t and t.deadline and t.deadline <= due then
    outcome, time = 3, t.deadline
  elseif t then
    move(q, t, due)
    outcome, time = 1, due
  end
  finish(q)
  return remember(once, { outcome, time })
end)

-- Declines a wake-up: the next process is woken if a task is due.
--
-- KEYS[1-37]  the queue
--
-- 1
--
-- flags: allow-oom
verb('queue_ring', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 0 then return wrong.count('arguments', #ARGV, 0) end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if not q.paused and due_tasks(q, 1).ids[1] then
    ring(q, 1)
    finish(q)
  end
  return 1
end)

-- Creates or changes a schedule. One that is given the same settings again stays as it is, with its next moment.
--
-- KEYS[1-37]   the queue
-- KEYS[38-40]  the schedules
-- ARGV[1]      id: name; at most 170 bytes
-- ARGV[2]      recurrence: text of at most 4,096 bytes
-- ARGV[3]      body: body
-- ARGV[4]      priority: 0 to 9; 0 goes first
-- ARGV[5]      max attempts: 1 to 1,000
-- ARGV[6]      next: 0 to 2^53 - 1; moment in µs, 0 for never; kept unless recurrence or pause changes
-- ARGV[7]      paused: 0 or 1 or ''; '' keeps the setting, and a new schedule is active
-- ARGV[8]      as of: 1 to 2^53 - 1 or ''; change the schedule only if it has this revision
--
-- {outcome, revision}  1 added, 2 changed, 3 unchanged
-- {4}                  the queue has 10,000 schedules, which is the limit
-- {5}                  the schedule has another revision, or is gone
verb('queue_schedule', {}, { 'queue', 'schedules' }, function()
  do
    if #ARGV ~= 8 then return wrong.count('arguments', #ARGV, 8) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
    if not is.text(ARGV[2], 4096) then
      return wrong.argument(2, 'recurrence', 'text of at most 4,096 bytes')
    end
    if not is.body(ARGV[3]) then
      return wrong.argument(3, 'body', LIMITS.body)
    end
    if not is.whole(ARGV[4], 0, 9) then
      return wrong.argument(4, 'priority', '0 to 9')
    end
    if not is.whole(ARGV[5], 1, 1000) then
      return wrong.argument(5, 'max attempts', '1 to 1,000')
    end
    if not is.whole(ARGV[6], 0, 9007199254740991) then
      return wrong.argument(6, 'next', '0 to 2^53 - 1')
    end
    if not (ARGV[7] == '' or is.whole(ARGV[7], 0, 1)) then
      return wrong.argument(7, 'paused', '0 or 1 or \'\'')
    end
    if not (ARGV[8] == '' or is.whole(ARGV[8], 1, 9007199254740991)) then
      return wrong.argument(8, 'as of', '1 to 2^53 - 1 or \'\'')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local SCHEDULES_MAX, ID_MAX = 10000, 170
  local id, recurrence = ARGV[1], ARGV[2]
  if #id > ID_MAX then return { err = 'INVALID the schedule ID has more than 170 bytes; its task IDs would be too long' } end
  local q, of = queue_keys(1), schedule_keys(38)
  local old = read_schedule(of, id)
  if ARGV[8] ~= '' and (not old or old.revision ~= tonumber(ARGV[8])) then
    -- Naming a queue counts as a use of it, whatever the answer.
    touch(q)
    finish(q)
    return { 5 }
  end
  local template = struct.pack(TEMPLATE, tonumber(ARGV[4]), tonumber(ARGV[5]), #recurrence) .. recurrence .. ARGV[3]
  local paused = tonumber(ARGV[7]) or (old and old.paused or 0)
  if old and old.template == template and old.paused == paused then return { 3, old.revision } end
  touch(q)
  if reap(q) then return AGAIN end
  if not old and redis.call('HLEN', of.schedules) >= SCHEDULES_MAX then
    finish(q)
    return { 4 }
  end
  redis.call('ZADD', of.ids, 0, id)
  -- A change of something else must not lose moments that are due but not fired yet.
  local goes_on = old and old.recurrence == recurrence and old.paused == paused
  local revision = next_revision(q)
  store_schedule(of, {
    id = id, template = template, revision = revision, paused = paused,
    next = goes_on and old.next or tonumber(ARGV[6]),
    previous = old and old.previous or 0,
  })
  finish(q)
  return { old and 2 or 1, revision }
end)

-- Returns schedules, ordered by id.
--
-- KEYS[1-3]  the schedules
-- ARGV[1]    after: name or ''; only ids greater than this
-- ARGV[2]    limit: 1 to 10,000
--
-- {id, schedule, ...}
--
-- flags: no-writes
verb('queue_schedules', { 'no-writes' }, { 'schedules' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not (ARGV[1] == '' or is.name(ARGV[1])) then
      return wrong.argument(1, 'after', LIMITS.name)
    end
    if not is.whole(ARGV[2], 1, 10000) then
      return wrong.argument(2, 'limit', '1 to 10,000')
    end
  end
  local of = schedule_keys(1)
  local after = ARGV[1] == '' and '-' or '(' .. ARGV[1]
  local ids, answer = redis.call('ZRANGEBYLEX', of.ids, after, '+', 'LIMIT', '0', ARGV[2]), {}
  for _, id in ipairs(ids) do
    answer[#answer + 1], answer[#answer + 2] = id, redis.call('HGET', of.schedules, id)
  end
  return answer
end)

-- Asks a worker to work, to claim nothing or to stop. It learns of it when it announces itself.
--
-- KEYS[1-3]  the workers
-- ARGV[1]    id: name
-- ARGV[2]    mode: 0 or 1 or 2; work, quiet, stop
--
-- 1  the worker is listed
-- 0  not found
--
-- flags: allow-oom
verb('queue_set_worker', { 'allow-oom' }, { 'workers' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
    if not (ARGV[2] == '0' or ARGV[2] == '1' or ARGV[2] == '2') then
      return wrong.argument(2, 'mode', '0 or 1 or 2')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local of = worker_keys(1)
  local worker = read_worker(of, ARGV[1])
  if not worker then return 0 end
  local packed = struct.pack(WORKER_TERMS, worker.since, worker.seen, worker.till, tonumber(ARGV[2])) .. worker.rest
  redis.call('HSET', of.workers, ARGV[1], packed)
  return 1
end)

-- Returns how many tasks are in each state, and the settings of the queue.
--
-- KEYS[1-37]  the queue
--
-- {ready, scheduled, leased, blocked, dead, done, dropped, lag, rate until, latest claim, paused, bound, limits}
--   dropped: in total; lag: how long the oldest due task has been due, µs; rate until: when the rate allows more, or ''
--   paused: 1 or 0; bound: the capacity, or ''; limits: the others, as in the field `limits` of meta, or ''
--
-- flags: allow-oom
verb('queue_stats', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 0 then return wrong.count('arguments', #ARGV, 0) end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  local first_listed = at_once.head(q)
  finish(q)
  local all, oldest, free = first_listed and at_once.length(q) - q.skipped or 0, first_listed or now, free_from(q)
  local ready = oldest <= now and all or 0
  for priority = 0, 9 do
    if is_used(q, priority) then
      local set = waiting(q, priority).key
      ready = ready + redis.call('ZCOUNT', set, '-inf', now_text())
      all = all + redis.call('ZCARD', set)
      oldest = math.min(oldest, tonumber(redis.call('ZRANGE', set, '0', '0', 'WITHSCORES')[2]) or now)
    end
  end
  local done = q.keep_n and finished.count(q) - finished.count(q, now - q.keep_us) or 0
  return {
    ready, all - ready, redis.call('ZCARD', q.leases.key),
    redis.call('ZCARD', q.blocked) + redis.call('ZCARD', q.held) - q.lines_waiting,
    redis.call('ZCARD', q.dead_ids), done, tonumber(redis.call('HGET', q.meta, 'dropped') or 0),
    math.max(now - oldest, 0), free > now and int(free) or '',
    int(q.claim), q.paused and 1 or 0, q.bound and int(q.bound) or '',
    redis.call('HGET', q.meta, 'limits') or '',
  }
end)

-- Returns tasks by id.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     over: 0 or 1; 1 for finished tasks only
-- ARGV[2..]   for each task, 1 to 1,000 of them:
--               id: name
--
-- {now, id, record, run or '', moment, ...}  for each task that is live, or finished and kept:
--   record and run: as stored. Of a finished task, record is '' and run is its entry in `done`
--   moment: when a task with a key may be claimed, µs; '' if the task is blocked; 0 without a key, or if the task is
--   leased or finished
--
-- flags: allow-oom
verb('queue_tasks', { 'allow-oom' }, { 'queue' }, function()
  do
    local times = (#ARGV - 1) / 1
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '1 and 1 for each task, 1 to 1000 of them')
    end
    if not is.whole(ARGV[1], 0, 1) then
      return wrong.argument(1, 'over', '0 or 1')
    end
    for at = 2, #ARGV, 1 do
      if not is.name(ARGV[at]) then
        return wrong.argument(at, 'id', LIMITS.name)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  finish(q)
  local answer = { now }
  if ARGV[1] == '0' then fetch_tasks(q, arguments(2, 1)) end
  for at = 2, #ARGV do
    local id = ARGV[at]
    local record, run, moment = ARGV[1] == '0' and read(q.records, id), '', 0
    if record then
      run = read(q.runs, id)
      run, moment = run or '', moment_shown(q, id, record, run)
    else
      record, run = '', finished.entry(q, id)
    end
    if run then
      answer[#answer + 1], answer[#answer + 2], answer[#answer + 3], answer[#answer + 4] = id, record, run, moment
    end
  end
  return answer
end)

-- Returns the first due tasks without claiming them.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     how many: 1 to 1,000
--
-- {id, record, run or '', ...}
--
-- flags: allow-oom
verb('queue_top', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.whole(ARGV[1], 1, 1000) then
      return wrong.argument(1, 'how many', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if prepare(q) then return AGAIN end
  local answer = {}
  local found = due_tasks(q, tonumber(ARGV[1]))
  finish(q)
  for at, id in ipairs(found.ids) do
    table.insert(answer, id)
    table.insert(answer, found.records[at])
    table.insert(answer, found.runs[at] or '')
  end
  return answer
end)

-- Returns when the uniqueness window of an id ends.
--
-- KEYS[1]  the uniqueness windows
-- ARGV[1]  id: name
--
-- until  µs; 0 if the id has no window
--
-- flags: no-writes
verb('queue_unique_until', { 'no-writes' }, { 'unique' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  return unique_until(KEYS[1], ARGV[1]) or 0
end)

-- Deletes a schedule. Tasks that it enqueued stay.
--
-- KEYS[1-3]  the schedules
-- ARGV[1]    id: name
--
-- 1  deleted
-- 0  not found
--
-- flags: allow-oom
verb('queue_unschedule', { 'allow-oom' }, { 'schedules' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
  end
  local of = schedule_keys(1)
  redis.call('ZREM', of.moments, ARGV[1])
  redis.call('ZREM', of.ids, ARGV[1])
  return redis.call('HDEL', of.schedules, ARGV[1])
end)

-- Returns the finished dependencies of a task, ordered by id.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     id: name
-- ARGV[2]     after: name or ''; only ids greater than this
-- ARGV[3]     at most: 1 to 100
--
-- {id, finished(7) how(1) result or error, ...}
--
-- flags: allow-oom
verb('queue_waited', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 3 then return wrong.count('arguments', #ARGV, 3) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
    if not (ARGV[2] == '' or is.name(ARGV[2])) then
      return wrong.argument(2, 'after', LIMITS.name)
    end
    if not is.whole(ARGV[3], 1, 100) then
      return wrong.argument(3, 'at most', '1 to 100')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  finish(q)
  local record, answer = q.linked and read(q.records, ARGV[1]), {}
  if not record then return answer end
  local with = string.sub(record, 1, 7)
  local from = (ARGV[2] == '' and '[' or '(') .. with .. ARGV[2]
  local fields = redis.call('ZRANGEBYLEX', q.result_ids, from, '(' .. with .. '\255', 'LIMIT', '0', ARGV[3])
  local kept = #fields > 0 and redis.call('HMGET', q.results, unpack(fields)) or {}
  for at, field in ipairs(fields) do
    answer[2 * at - 1], answer[2 * at] = string.sub(field, #with + 1), kept[at]
  end
  return answer
end)

-- Returns what a task waits for, and how far its dependencies are.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     id: name
--
-- {open, if dead, left, over, dead, id, is dead, error, ...}
--   open: 1 for an open batch; if dead: 0 keep waiting, 1 fail, 2 run; left: how many it still waits for
--   over: how many have finished; dead: how many of the first 1,000 left are dead
--   then up to five of those left, dead ones first: the id, 1 if it is dead, and its error, cut to 200 bytes
-- {}  the task is not live, or never waited for others
--
-- flags: allow-oom
verb('queue_waits', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'id', LIMITS.name)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local LOOKED_AT, SHOWN = 1000, 5
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  finish(q)
  local record = q.linked and read(q.records, ARGV[1])
  if not record then return {} end
  local place = string.sub(record, 1, 7)
  local function count(set)
    return redis.call('ZLEXCOUNT', set, '[' .. place, '(' .. place .. '\255')
  end
  local open = open_place(q, ARGV[1]) and 1 or 0
  local left, over = count(q.dependencies) - open, count(q.result_ids)
  if open + left + over == 0 then return {} end
  local policy, ids, dead, live, n = 0, {}, {}, {}, 0
  for at, member in ipairs(beginning(q.dependencies, place, LOOKED_AT + open)) do
    policy = tonumber(string.sub(member, 7 + 1, 7 + 1))
    if at > open then ids[#ids + 1] = string.sub(member, 7 + 2) end
  end
  local scores = #ids > 0 and redis.call('ZMSCORE', q.dead_ids, unpack(ids)) or {}
  for at, id in ipairs(ids) do
    local is_dead = scores[at] and not read(q.records, id)
    if is_dead then n = n + 1 end
    local group = is_dead and dead or live
    if #group < SHOWN then group[#group + 1] = id end
  end
  local answer = { open, policy, left, over, n }
  for at = 1, math.min(#dead + #live, SHOWN) do
    local id, error = dead[at] or live[at - #dead], ''
    if dead[at] then
      local letter = redis.call('HGET', q.dead, id)
      local _, _, _, _, length, from = struct.unpack('>I7I2I2I1I2', letter)
      error = cut_error(string.sub(letter, from, from + length - 1))
    end
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = id, dead[at] and 1 or 0, error
  end
  return answer
end)

-- Registers a process for one notification that a task has finished. The queue needs a retention.
--
-- KEYS[1-37]  the queue
-- ARGV[1]     inbox: 16 hexadecimal digits
-- ARGV[2]     id: name
--
-- 1  registered
-- 0  the task is not live, or the queue has no retention: read the task now
--
-- flags: allow-oom
verb('queue_watch', { 'allow-oom' }, { 'queue' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not is.hexadecimal(ARGV[1], 16) then
      return wrong.argument(1, 'inbox', '16 hexadecimal digits')
    end
    if not is.name(ARGV[2]) then
      return wrong.argument(2, 'id', LIMITS.name)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local q = queue_keys(1)
  if reap(q) then return AGAIN end
  local awaited = q.keep_n and redis.call('HEXISTS', q.records.key, ARGV[2]) == 1
  if awaited then events.leave_inbox(q, ARGV[2], ARGV[1]) end
  finish(q)
  return awaited and 1 or 0
end)

-- Returns workers that live, ordered by id.
--
-- KEYS[1-3]  the workers
-- ARGV[1]    after: name or ''; only ids greater than this
-- ARGV[2]    limit: 1 to 10,000
--
-- {id, worker, ...}
--
-- flags: no-writes
verb('queue_workers', { 'no-writes' }, { 'workers' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if not (ARGV[1] == '' or is.name(ARGV[1])) then
      return wrong.argument(1, 'after', LIMITS.name)
    end
    if not is.whole(ARGV[2], 1, 10000) then
      return wrong.argument(2, 'limit', '1 to 10,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local of = worker_keys(1)
  local after, limit = ARGV[1] == '' and '-' or '(' .. ARGV[1], tonumber(ARGV[2])
  local answer = {}
  for _, id in ipairs(redis.call('ZRANGEBYLEX', of.ids, after, '+')) do
    local worker = read_worker(of, id)
    if worker then answer[#answer + 1], answer[#answer + 2] = id, worker.packed end
    if #answer == 2 * limit then break end
  end
  return answer
end)

-- Releases a lock and enqueues a task, in one atomic step. Changes nothing if the token does not hold the lock or the
-- queue refuses the task. Lock and queue must be on one server, so this does not work in a Cluster. Only a release is
-- remembered: after another answer, the call can be repeated with the same op.
--
-- KEYS[1-4]    the lock
-- KEYS[5-41]   the queue
-- KEYS[42-43]  the replay cache
-- KEYS[44]     the uniqueness windows
-- ARGV[1]      op: 8 bytes
-- ARGV[2]      token: 16 bytes
-- ARGV[3]      id: name
-- ARGV[4]      terms: terms
-- ARGV[5]      body: body
--
-- {0}                                        the token does not hold the lock; the task was not enqueued
-- {1, outcome, revision or capacity or ...}  released, and the outcome of rushgate_1_queue_enqueue for the task
-- {2, outcome, capacity or reason, ...}      refused, with outcome 4 or 8 of the same; the token still holds the lock
verb('lock_release_with', {}, { 'lock', 'queue', 'answers', 'unique' }, function()
  do
    if #ARGV ~= 5 then return wrong.count('arguments', #ARGV, 5) end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'op', '8 bytes')
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'token', '16 bytes')
    end
    if not is.name(ARGV[3]) then
      return wrong.argument(3, 'id', LIMITS.name)
    end
    if not is.terms(ARGV[4]) then
      return wrong.argument(4, 'terms', LIMITS.terms)
    end
    if not is.body(ARGV[5]) then
      return wrong.argument(5, 'body', LIMITS.body)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local lock, q, once = lock_of(KEYS[1]), queue_keys(5), replay_keys(42, ARGV[1], op_of.other)
  local answered = remembered(once)
  if not holds(lock, ARGV[2]) then return answered or { 0 } end
  if asks_too_late(q, 4, 4, 1) then return TOO_LATE end
  touch(q)
  if reap(q) then return AGAIN end

  local id = ARGV[3]
  fetch(q.records, { id })
  fetch_unique(q, KEYS[44], { id })
  local outcome, number, dropped = put_asked(q, id, ARGV[4], ARGV[5])
  write_periods(q)
  finish(q)
  if outcome == 4 or outcome == 8 then return { 2, outcome, number, dropped } end

  release(lock)
  take_from_line(lock, ARGV[2])
  hand_over(lock)
  return remember(once, { 1, outcome, number, dropped })
end)
end
end

do

-- A sale's waiting room. Its two keys, in this order:
--   room     HASH  rules and counters, such as j, the buyers who joined, and a, those who were admitted
--   tickets  HASH  buyer -> serial(6) until(7): the end of the buyer's admission token, 0 before admission
-- The keys have the tag of the sale's home. After a draw, the caller computes a buyer's place.
--
-- internals:
--   room  n and u: n places are served every u µs; p validity of an admission token, µs; w 1 if the order is drawn; f
--         earliest admission ('' for none); o when the room was opened; b places served before s; s when the next place
--         is served ('' before a draw); j buyers who joined; a buyers who were admitted; k the draw's secret (32); c its
--         SHA-256 (32); z when the entry was closed for the draw; e how many take part in the draw ('' until the entry is
--         closed); t the beacon ('' before the draw)
local TICKET = '>I6I7'

local function room_keys(first)
  local r = { row = KEYS[first], tickets = KEYS[first + 1] }
  local row = redis.call('HMGET', r.row, 'n', 'u', 'p', 'w', 'f', 'o', 'b', 's', 'j', 'a', 'k', 'c', 'e', 't',
    'z')
  r.is_there = row[1] ~= false
  r.n, r.per, r.pass, r.draws, r.from = tonumber(row[1]), tonumber(row[2]), tonumber(row[3]), row[4], row[5]
  r.opened, r.base, r.since, r.joined, r.admitted = row[6], tonumber(row[7]), tonumber(row[8]), tonumber(row[9]), row[10]
  r.secret, r.commitment, r.entrants, r.beacon = row[11], row[12], row[13], row[14]
  r.closed = row[15] or ''
  return r
end

-- How many places could be served by now, however many buyers have joined.
local function reach(r)
  if not r.since then return 0 end
  if now < r.since then return r.base end
  local elapsed = now - r.since
  local rest = elapsed % r.per
  return r.base + 1 + math.floor(rest * r.n / r.per) + (elapsed - rest) / r.per * r.n
end

local function served(r)
  return math.min(reach(r), r.joined)
end

local function room_state(r)
  return {
    r.n, r.per, r.pass, r.draws, r.from, r.opened, r.base, r.since or '', r.joined, served(r), r.admitted,
    r.draws == '1' and r.commitment or '', r.closed, r.entrants, r.beacon ~= '' and r.secret or '', r.beacon, now,
  }
end

local function read_ticket(r, buyer)
  local packed = redis.call('HGET', r.tickets, buyer)
  if packed then return struct.unpack(TICKET, packed) end
end

-- Closes a sale's waiting room and removes all who wait.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
--
-- 0  no such sale
-- 1  the sale has no room
-- 2  closed
--
-- flags: allow-oom
verb('room_close', { 'allow-oom' }, { 'home', 'room' }, function()
  do
    if #ARGV ~= 0 then return wrong.count('arguments', #ARGV, 0) end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  local r = room_keys(2)
  if not r.is_there then return 1 end
  -- The server frees the memory in the background.
  redis.call('UNLINK', r.row, r.tickets)
  return 2
end)

-- Closes the entry of a sale's waiting room for its draw, once. Buyers who have joined by now take part. Buyers who
-- join later are placed behind them.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
--
-- 0       no such sale
-- 1       the sale has no room
-- 2       the room is first come, first served
-- {room}  as `rushgate_1_room_set` answers
verb('room_close_entry', {}, { 'home', 'room' }, function()
  do
    if #ARGV ~= 0 then return wrong.count('arguments', #ARGV, 0) end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  local r = room_keys(2)
  if not r.is_there then return 1 end
  if r.draws ~= '1' then return 2 end
  if r.entrants == '' then
    r.closed, r.entrants = int(now), int(r.joined)
    redis.call('HSET', r.row, 'z', r.closed, 'e', r.entrants)
  end
  return room_state(r)
end)

-- Draws the order of a sale's waiting room, once: reveals the secret and starts to admit buyers. The entry must be
-- closed first.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
-- ARGV[1]    beacon: text of at most 256 bytes; at least 1. Only the first call counts
--
-- 0       no such sale
-- 1       the sale has no room
-- 2       the room is first come, first served
-- {room}  as `rushgate_1_room_set` answers; unchanged and without a beacon if the entry is not closed
verb('room_draw', {}, { 'home', 'room' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.text(ARGV[1], 256) then
      return wrong.argument(1, 'beacon', 'text of at most 256 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  local r = room_keys(2)
  if not r.is_there then return 1 end
  if r.draws ~= '1' then return 2 end
  if r.closed ~= '' and r.beacon == '' and ARGV[1] ~= '' then
    r.base, r.since, r.beacon = 0, math.max(now, tonumber(r.from) or 0), ARGV[1]
    redis.call('HSET', r.row, 't', r.beacon, 's', int(r.since))
  end
  return room_state(r)
end)

-- Admits a buyer whose place in a sale's waiting room is served, and returns the state of the buyer. A buyer is
-- admitted once: later calls return the same end of the admission token.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
-- ARGV[1]    buyer: name
-- ARGV[2]    serial: 0 to 2^53 - 1 or ''; the buyer's serial, if the place is known
-- ARGV[3]    place: 0 to 2^53 - 1 or ''; the place that the draw gives to the serial
--
-- 0                                  no such sale
-- 1                                  the sale has no room
-- {serial or '', until or '', room}  '' if the buyer has not joined. until: the end of the admission token, past or
--                                    future, 0 before admission. room: as `rushgate_1_room_set` answers
verb('room_enter', {}, { 'home', 'room' }, function()
  do
    if #ARGV ~= 3 then return wrong.count('arguments', #ARGV, 3) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'buyer', LIMITS.name)
    end
    if not (ARGV[2] == '' or is.whole(ARGV[2], 0, 9007199254740991)) then
      return wrong.argument(2, 'serial', '0 to 2^53 - 1 or \'\'')
    end
    if not (ARGV[3] == '' or is.whole(ARGV[3], 0, 9007199254740991)) then
      return wrong.argument(3, 'place', '0 to 2^53 - 1 or \'\'')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  local r = room_keys(2)
  if not r.is_there then return 1 end
  local serial, ends = read_ticket(r, ARGV[1])
  local place = serial
  if serial and r.draws == '1' then
    place = tonumber(ARGV[2]) == serial and tonumber(ARGV[3])
  end
  if ends == 0 and place and place < served(r) then
    ends, r.admitted = now + r.pass, int(r.admitted + 1)
    redis.call('HSET', r.tickets, ARGV[1], struct.pack(TICKET, serial, ends))
    redis.call('HSET', r.row, 'a', r.admitted)
  end
  return { serial or '', ends or '', room_state(r) }
end)

-- Adds a buyer to a sale's waiting room and returns a serial: 0, 1, 2, … by arrival. A buyer who is in the room keeps
-- the serial. After the admission token has expired, the buyer joins again at the end.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
-- ARGV[1]    buyer: name
--
-- 0                             no such sale
-- 1                             the sale has no room
-- {serial, again, until, room}  again: 1 if the buyer was in the room before. until: the end of the admission token, or
--                               0. room: as `rushgate_1_room_set` answers
verb('room_join', {}, { 'home', 'room' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if not is.name(ARGV[1]) then
      return wrong.argument(1, 'buyer', LIMITS.name)
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  local r = room_keys(2)
  if not r.is_there then return 1 end
  local serial, ends = read_ticket(r, ARGV[1])
  local again = serial and (ends == 0 or now < ends)
  if not again then
    serial, ends = r.joined, 0
    redis.call('HSET', r.tickets, ARGV[1], struct.pack(TICKET, serial, ends))
    -- The buyer is next and is served at once: unused places do not accumulate.
    if r.since and reach(r) > r.joined then
      r.base, r.since = r.joined, now
      redis.call('HSET', r.row, 'b', int(r.base), 's', int(r.since))
    end
    r.joined = r.joined + 1
    redis.call('HSET', r.row, 'j', int(r.joined))
  end
  return { serial, again and 1 or 0, ends, room_state(r) }
end)

-- Opens a sale's waiting room, or changes its rules while buyers wait. Places that were served stay served, and the new
-- rate applies from there on. Setting the same rules again changes nothing.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
-- ARGV[1]    places: 1 to 10,000; how many are served in the time below
-- ARGV[2]    time: 1,000 to 86,400,000,000 µs
-- ARGV[3]    pass: 1,000,000 to 86,400,000,000 µs; validity of an admission token
-- ARGV[4]    drawn: 0 or 1; 1 for a randomized draw, 0 for first come, first served
-- ARGV[5]    from: 0 to 2^53 - 1 or ''; earliest admission, moment in µs
-- ARGV[6]    secret: 32 bytes; random, for a draw. An existing room keeps its own
-- ARGV[7]    commitment: 32 bytes; the SHA-256 of the secret
--
-- 0  no such sale
-- 2  the room has another order, which cannot be changed
-- {n, time, pass, drawn, from or '', opened, served before, next served or '', joined, served, admitted,
--   commitment or '', entry closed or '', in the draw or '', secret or '', beacon or '', now}
verb('room_set', {}, { 'home', 'room' }, function()
  do
    if #ARGV ~= 7 then return wrong.count('arguments', #ARGV, 7) end
    if not is.whole(ARGV[1], 1, 10000) then
      return wrong.argument(1, 'places', '1 to 10,000')
    end
    if not is.whole(ARGV[2], 1000, 86400000000) then
      return wrong.argument(2, 'time', '1,000 to 86,400,000,000 µs')
    end
    if not is.whole(ARGV[3], 1000000, 86400000000) then
      return wrong.argument(3, 'pass', '1,000,000 to 86,400,000,000 µs')
    end
    if not is.whole(ARGV[4], 0, 1) then
      return wrong.argument(4, 'drawn', '0 or 1')
    end
    if not (ARGV[5] == '' or is.whole(ARGV[5], 0, 9007199254740991)) then
      return wrong.argument(5, 'from', '0 to 2^53 - 1 or \'\'')
    end
    if #ARGV[6] ~= 32 then
      return wrong.argument(6, 'secret', '32 bytes')
    end
    if #ARGV[7] ~= 32 then
      return wrong.argument(7, 'commitment', '32 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  local r = room_keys(2)
  local n, per, from = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])
  if not r.is_there then
    local since = ARGV[4] == '0' and int(math.max(now, from or 0)) or ''
    redis.call('HSET', r.row, 'n', ARGV[1], 'u', ARGV[2], 'p', ARGV[3], 'w', ARGV[4], 'f', ARGV[5], 'o', int(now), 'b', 0,
      's', since, 'j', 0, 'a', 0, 'k', ARGV[6], 'c', ARGV[7], 'e', '', 't', '',
      'z', '')
    return room_state(room_keys(2))
  end
  if r.draws ~= ARGV[4] then return 2 end
  if r.n ~= n or r.per ~= per or r.pass ~= tonumber(ARGV[3]) or tonumber(r.from) ~= from then
    local base, since = r.base, ''
    if r.since then
      -- The next place keeps its moment, unless an interval of the new rate from now is sooner.
      base = served(r)
      local places = base - r.base
      local rest = places % r.n
      local next_at = r.since + (places - rest) / r.n * r.per + math.ceil(rest * r.per / r.n)
      since = int(math.max(math.min(math.max(next_at, now), now + math.ceil(per / n)), from or 0))
    end
    redis.call('HSET', r.row, 'n', ARGV[1], 'u', ARGV[2], 'p', ARGV[3], 'f', ARGV[5], 'b', int(base), 's', since)
    r = room_keys(2)
  end
  return room_state(r)
end)

-- Returns the state of a sale's waiting room.
--
-- KEYS[1]    the sale's home
-- KEYS[2-3]  the room
--
-- 0       no such sale
-- 1       the sale has no room
-- {room}  as `rushgate_1_room_set` answers
--
-- flags: no-writes
verb('room_show', { 'no-writes' }, { 'home', 'room' }, function()
  do
    if #ARGV ~= 0 then return wrong.count('arguments', #ARGV, 0) end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  local r = room_keys(2)
  if not r.is_there then return 1 end
  return room_state(r)
end)
end

do

-- A sale. Its eight keys, in this order:
--   row        HASH  the state of the sale, such as status (0 created, 1 open, 2 ended), seq (number of the latest event)
--                    and halted_at ('' if it is not halted); sku:<n> -> SKU, of the n-th, from 0
--   returned   ZSET  units that are free again
--   withdrawn  ZSET  ranges of units that were removed from the sale
--   buyers     HASH  buyer NUL sku -> units held or sold
--   holds      HASH  reservation -> hold
--   deadlines  ZSET  undecided hold -> deadline
--   events     LIST  all events, in order
--   failed     ZSET  entries that the ledger could not record
--
-- Records in answers:
--   hold   state(1) deadline(7) event(6) generation(4) lines' length(2) buyer's length(1) buyer lines units
--          lines: the cart as it was requested, or '' in a hold that was restored after a loss
--          units: ranges, each sku(2) first(4) last(4)
--   sku    total(4) next(4) ahead(4) returned(4) held(4) confirmed(4) withdrawn(4) per buyer(2)
--          free are total - next - ahead + returned
--   event  at(7) kind(1), then 1 and the reservation, or 0; units as in a hold
--
-- internals:
--   row        secret; generation; hold_us; opens_at, closes_at: '' for never; ledger: 1 if a ledger records the orders;
--              halt_reason (the position in `HaltReason::ALL`); rebuild, the latest one; stopped_at, when the generation
--              before was halted; switched_at, when this one replaced it; receipts_until, until when only receipts are
--              honored; through, the number of the latest event that was delivered to the ledger; worker and
--              worker_until, of the order worker that follows the sale; listeners, inboxes(16 each) to notify of the next
--              event
--              next, of a SKU: numbers 1..next were handed out or skipped at least once. Those above are fresh, except
--              for the withdrawn ones, which `ahead` counts
--   returned   sku * 2^24 + unit, as member and score
--   withdrawn  sku(2) first(4) last(4) -> sku * 2^24 + last. Ranges do not overlap, and none spans `next`
--   deadlines  event(6) reservation
--   failed     retry at(7) event(7) attempts(4) reason -> event
-- A rebuild stages the new sale under eight other keys, and the switch renames them. States and kinds are the codes of
-- `HoldState` and `EventKind`.
-- How long a buyer should wait before asking again while the sale is halted, µs.
local SKU = '>I4I4I4I4I4I4I4I2'
local HOLD, HOLD_BYTES = '>I1I7I6I4I2I1', 21
local RANGE, RANGE_BYTES = '>I2I4I4', 10
-- There is no such sale under these keys, or another one: the client must read the specification again.
local MISSING = { ok = 'MISSING' }

local function sale_keys(first, secret)
  local s = {
    row = KEYS[first], returned = KEYS[first + 1], withdrawn = KEYS[first + 2], buyers = hash(KEYS[first + 3]),
    holds = hash(KEYS[first + 4]), deadlines = sorted_set(KEYS[first + 5]), events = KEYS[first + 6],
    failed = KEYS[first + 7], skus = {}, new_events = {}, stamps = {}, beginnings = {}, middles = {},
  }
  local row = redis.call('HMGET', s.row, 'secret', 'status', 'generation', 'seq', 'hold_us', 'opens_at', 'closes_at',
    'ledger', 'halted_at', 'halt_reason', 'rebuild', 'stopped_at', 'switched_at', 'receipts_until', 'listeners')
  if row[1] ~= secret then return nil end
  s.status, s.generation, s.seq, s.hold = row[2], tonumber(row[3]), tonumber(row[4]), tonumber(row[5])
  s.opens, s.closes, s.ledger = tonumber(row[6]), tonumber(row[7]), row[8] == '1'
  s.halted, s.reason, s.by = tonumber(row[9]), tonumber(row[10]), row[11]
  s.stopped, s.switched, s.receipts = tonumber(row[12]), tonumber(row[13]), tonumber(row[14])
  s.listeners = row[15]
  return s
end

local function read_sku(s, no, packed)
  if not packed then return nil end
  local k = { no = no, suffix = '\0' .. no }
  k.total, k.next, k.ahead, k.returned, k.held, k.confirmed, k.withdrawn, k.per_buyer = struct.unpack(SKU, packed)
  s.skus[no] = k
  return k
end

local function sku(s, no)
  return s.skus[no] or read_sku(s, no, redis.call('HGET', s.row, 'sku:' .. no))
end

-- How many units of a SKU a buyer has.
local function units_of(s, buyer, k)
  return tonumber(read(s.buyers, buyer .. k.suffix)) or 0
end

local function count_units(s, buyer, k, n)
  local field = buyer .. k.suffix
  n = (tonumber(read(s.buyers, field)) or 0) + n
  set_field(s.buyers, field, n == 1 and '1' or n > 0 and int(n))
end

local function pack_sku(k)
  return struct.pack(SKU, k.total, k.next, k.ahead, k.returned, k.held, k.confirmed, k.withdrawn, k.per_buyer)
end

-- How many numbers are free and were never handed out.
local function fresh_of(k)
  return k.total - k.next - k.ahead
end

local function free_of(k)
  return fresh_of(k) + k.returned
end

-- The scores of a SKU's units, from one number to another.
local function scores(k, first, last)
  return k.no * 16777216 + first, k.no * 16777216 + last
end

-- Notifies the processes that wait for an event, once.
local function tell_listeners(s)
  local message = 'S' .. int(s.seq) .. ' ' .. string.match(s.row, '^rg:{s:(.*)}:')
  for at = 1, #s.listeners, 16 do
    redis.call('PUBLISH', 'rg:in:' .. string.sub(s.listeners, at, at + 15), message)
  end
  redis.call('HDEL', s.row, 'listeners')
end

-- Writes the buffers and counters of the sale.
local function close_sale(s)
  write_back(s.buyers)
  write_back(s.holds)
  write_back(s.deadlines)
  in_chunks('RPUSH', s.events, s.new_events)
  if s.listeners and #s.new_events > 0 then tell_listeners(s) end
  s.new_events = {}
  local fields = { 'status', s.status, 'seq', int(s.seq) }
  for no, k in pairs(s.skus) do
    if k.changed then
      table.insert(fields, 'sku:' .. no)
      table.insert(fields, pack_sku(k))
    end
  end
  redis.call('HSET', s.row, unpack(fields))
end

local function append(s, kind, reservation, units)
  s.seq = s.seq + 1
  local new_events, stamp = s.new_events, s.stamps[kind]
  if not stamp then
    stamp = struct.pack('>I7I1', now, kind)
    s.stamps[kind] = stamp
  end
  new_events[#new_events + 1] = reservation and stamp .. '\1' .. reservation .. units or stamp .. '\0' .. units
end

-- Halts the sale until it is rebuilt.
local function halt(s, reason)
  if s.halted then return end
  s.halted = now
  redis.call('HSET', s.row, 'halted_at', now, 'halt_reason', reason)
  append(s, 13, nil, '')
end

-- When to ask again, if no new reservation is accepted at the moment.
local function retry_at(s)
  if s.halted then return now + 2000000 end
  return s.receipts and now < s.receipts and s.receipts or nil
end

-- The numbers from `first` to `last` are free again.
local function shelve(s, k, first, last)
  local members = {}
  for code = k.no * 16777216 + first, k.no * 16777216 + last do
    members[#members + 1] = code
    members[#members + 1] = code
  end
  in_chunks('ZADD', s.returned, members)
  k.returned = k.returned + last - first + 1
end

-- Appends to a list of ranges, {first, last, first, last, ...}.
local function add_range(ranges, first, last)
  if ranges[#ranges] == first - 1 then
    ranges[#ranges] = last
  else
    table.insert(ranges, first)
    table.insert(ranges, last)
  end
end

local function pack_ranges(no, ranges)
  if #ranges == 2 then return struct.pack(RANGE, no, ranges[1], ranges[2]) end
  local packed = {}
  for at = 1, #ranges, 2 do
    table.insert(packed, struct.pack(RANGE, no, ranges[at], ranges[at + 1]))
  end
  return table.concat(packed)
end

local function withdraw(s, no, ranges)
  local members = {}
  for at = 1, #ranges, 2 do
    table.insert(members, no * 16777216 + ranges[at + 1])
    table.insert(members, struct.pack(RANGE, no, ranges[at], ranges[at + 1]))
  end
  in_chunks('ZADD', s.withdrawn, members)
end

-- The first fresh numbers at or above `from` that are not withdrawn, as a range; nil if there are none.
local function fresh_from(s, k, from)
  local first, last = math.max(k.next + 1, from), k.total
  while k.ahead > 0 do
    local low, high = scores(k, first, 16777216 - 1)
    local range = redis.call('ZRANGEBYSCORE', s.withdrawn, low, high, 'LIMIT', '0', '1')[1]
    if not range then break end
    local _, from_here, to_here = struct.unpack(RANGE, range)
    if first < from_here then
      last = from_here - 1
      break
    end
    first = to_here + 1
  end
  if first <= last then return first, last end
end

-- Marks fresh numbers as handed out or skipped. Those below them that were not marked are withdrawn.
local function pass(k, first, last)
  k.ahead, k.next, k.changed = k.ahead - (first - k.next - 1), last, true
end

-- Takes returned numbers, the lowest or the highest.
local function take_returned(s, k, n, lowest)
  local ranges = {}
  if n == 0 then return ranges end
  local low, high = scores(k, 0, 16777216 - 1)
  local codes
  if lowest then
    codes = redis.call('ZRANGEBYSCORE', s.returned, low, high, 'LIMIT', '0', n)
    redis.call('ZREMRANGEBYSCORE', s.returned, low, codes[#codes])
    for _, code in ipairs(codes) do
      add_range(ranges, code - k.no * 16777216, code - k.no * 16777216)
    end
  else
    codes = redis.call('ZREVRANGEBYSCORE', s.returned, high, low, 'LIMIT', '0', n)
    redis.call('ZREMRANGEBYSCORE', s.returned, codes[#codes], high)
    for at = #codes, 1, -1 do
      add_range(ranges, codes[at] - k.no * 16777216, codes[at] - k.no * 16777216)
    end
  end
  k.returned, k.changed = k.returned - n, true
  return ranges
end

-- Takes the lowest free numbers of a SKU: returned ones, then fresh ones. The caller has checked that there are enough.
local function take_lowest(s, k, n)
  local ranges = {}
  if k.returned > 0 then
    local again = math.min(k.returned, n)
    ranges, n = take_returned(s, k, again, true), n - again
  end
  while n > 0 do
    local first, last = fresh_from(s, k, 1)
    last = math.min(last, first + n - 1)
    pass(k, first, last)
    add_range(ranges, first, last)
    n = n - (last - first + 1)
  end
  return ranges
end

local function read_hold(id, packed)
  local h = { id = id }
  local lines, buyer
  h.state, h.deadline, h.seq, h.generation, lines, buyer = struct.unpack(HOLD, packed)
  h.buyer = string.sub(packed, HOLD_BYTES + 1, HOLD_BYTES + buyer)
  h.lines = string.sub(packed, HOLD_BYTES + buyer + 1, HOLD_BYTES + buyer + lines)
  h.units = string.sub(packed, HOLD_BYTES + buyer + lines + 1)
  return h
end

local function load_hold(s, id)
  local packed = read(s.holds, id)
  return packed and read_hold(id, packed)
end

local function pack_hold(h)
  return struct.pack(HOLD, h.state, h.deadline, h.seq, h.generation, #h.lines, #h.buyer) .. h.buyer .. h.lines .. h.units
end

local function store_hold(s, h)
  set_field(s.holds, h.id, pack_hold(h))
end

local function deadline_of(h)
  return struct.pack('>I6', h.seq) .. h.id
end

-- The ranges of a hold, unpacked: {sku, first, last, sku, first, last, ...}
local function ranges_of(h)
  if not h.ranges then
    local ranges, n = {}, 0
    for at = 1, #h.units, RANGE_BYTES do
      ranges[n + 1], ranges[n + 2], ranges[n + 3] = struct.unpack(RANGE, h.units, at)
      n = n + 3
    end
    h.ranges = ranges
  end
  return h.ranges
end

-- Writes a new hold: its event, row and deadline. Parts that holds of one call share are packed once.
local function write_hold(s, id, buyer, lines, deadline, units)
  append(s, 0, id, units)
  local beginning, lengths = s.beginnings[deadline], #lines * 256 + #buyer
  local middle, event = s.middles[lengths], struct.pack('>I6', s.seq)
  if not beginning then
    beginning = struct.pack('>I1I7', 0, deadline)
    s.beginnings[deadline] = beginning
  end
  if not middle then
    middle = struct.pack('>I4I2I1', s.generation, #lines, #buyer)
    s.middles[lengths] = middle
  end
  local packed = beginning .. event .. middle .. buyer .. lines .. units
  set_field(s.holds, id, packed)
  add_at(s.deadlines, deadline, event .. id)
  return packed
end

-- Adds a reservation that has these packed units.
local function enter_hold(s, h)
  local ranges = ranges_of(h)
  for at = 1, #ranges, 3 do
    local k, n = sku(s, ranges[at]), ranges[at + 2] - ranges[at + 1] + 1
    k.changed, k.held = true, k.held + n
    count_units(s, h.buyer, k, n)
  end
  local packed = write_hold(s, h.id, h.buyer, h.lines, h.deadline, h.units)
  h.state, h.seq, h.generation = 0, s.seq, s.generation
  return packed
end

-- Ends a reservation: its units are sold, free again, or withdrawn.
local function end_hold(s, h, kind)
  h.state = kind == 8 and 7 or kind
  store_hold(s, h)
  take_out(s.deadlines, deadline_of(h))
  local ranges = ranges_of(h)
  for at = 1, #ranges, 3 do
    local no, first, last = ranges[at], ranges[at + 1], ranges[at + 2]
    local k, n = sku(s, no), last - first + 1
    k.changed, k.held = true, k.held - n
    if kind == 4 then
      k.confirmed = k.confirmed + n
    else
      count_units(s, h.buyer, k, -n)
    end
    if kind == 8 then
      k.withdrawn = k.withdrawn + n
      withdraw(s, no, { first, last })
    elseif kind ~= 4 then
      shelve(s, k, first, last)
    end
  end
  append(s, kind, h.id, h.units)
end

-- Decides an undecided hold: to its final state, or with a ledger to the state that waits for the ledger to commit.
local MIDDLE = { confirm = 1, cancel = 2, expire = 3 }
local LAST = { confirm = 4, cancel = 5, expire = 6 }
local function decide(s, h, intent)
  if not s.ledger then
    return end_hold(s, h, LAST[intent])
  end
  h.state = MIDDLE[intent]
  store_hold(s, h)
  take_out(s.deadlines, deadline_of(h))
  append(s, h.state, h.id, '')
end

-- Expires holds whose deadline has passed.
local function expire(s, expired)
  for _, deadline in ipairs(expired) do
    decide(s, load_hold(s, string.sub(deadline, 7)), 'expire')
  end
end

local function expired_holds(s, n)
  write_back(s.deadlines)
  return redis.call('ZRANGEBYSCORE', s.deadlines.key, '-inf', now_text(), 'LIMIT', '0', n)
end

local function next_expiry(s)
  local head = redis.call('ZRANGE', s.deadlines.key, '0', '0', 'WITHSCORES')
  return head[2] and int(tonumber(head[2])) or ''
end

-- Confirming and canceling holds.
local function decide_each(s, ids, intent)
  local began, answers = false, {}
  fetch(s.holds, ids)
  for _, id in ipairs(ids) do
    local h = load_hold(s, id)
    local undecided = h and h.state == 0
    if s.halted and (undecided or not h) then
      answers[#answers + 1] = { 4 }
    elseif not h then
      answers[#answers + 1] = { 0 }
    else
      if undecided then
        began = true
        decide(s, h, h.deadline <= now and 'expire' or intent)
      end
      local outcome = h.state == LAST[intent] and 1 or h.state == MIDDLE[intent] and 2 or 3
      answers[#answers + 1] = { outcome, read(s.holds, h.id) }
    end
  end
  if began then close_sale(s) end
  return answers
end

-- The attempts at a sale, as its servers count them. Their three keys, in this order:
--   attempts         HASH  answer -> sum over all servers
--   attempts_of      HASH  server(8) answer -> count of that server
--   attempt_servers  ZSET  server(8) -> when its count grew last
local function attempt_keys(first) return KEYS[first], KEYS[first + 1], KEYS[first + 2] end

-- Entries of the sale's log that the ledger could not record.
local FAILED_ORDER, FAILED_ORDER_BYTES = '>I7I7I4', 18

local function read_failed(member)
  local retry_at, seq, attempts = struct.unpack(FAILED_ORDER, member)
  return { retry_at = retry_at, seq = seq, attempts = attempts }
end

local function store_failed(s, seq, retry_at, attempts, reason)
  redis.call('ZREMRANGEBYSCORE', s.failed, seq, seq)
  redis.call('ZADD', s.failed, int(seq), struct.pack(FAILED_ORDER, retry_at, seq, attempts) .. reason)
end

-- Taking units for a cart: `wanted` is its lines, each the number of a SKU and a quantity.

local function lowest_free(s, k, from)
  local fresh = fresh_from(s, k, from)
  if k.returned == 0 then return fresh end
  local low, high = scores(k, from, 16777216 - 1)
  local again = redis.call('ZRANGEBYSCORE', s.returned, low, high, 'LIMIT', '0', '1')[1]
  again = again and tonumber(again) - k.no * 16777216
  return again and fresh and math.min(again, fresh) or again or fresh
end

local function is_free(s, k, unit)
  if unit > k.next then return fresh_from(s, k, unit) == unit end
  return redis.call('ZSCORE', s.returned, k.no * 16777216 + unit)
end

-- The lowest number that is free in every line. Each line is asked for its lowest free number from the candidate on,
-- and the highest answer is the next candidate, until all agree.
local function common(s, wanted)
  local candidate = 1
  while true do
    local highest = candidate
    for _, line in ipairs(wanted) do
      local free = lowest_free(s, s.skus[line.no], candidate)
      if not free then return nil end
      highest = math.max(highest, free)
    end
    if highest == candidate then return candidate end
    candidate = highest
  end
end

-- The refusal for the first line that exceeds the buyer's limit: {6, sku, limit, has}.
local function over_limit(s, wanted, buyer)
  for i = 1, #wanted do
    local line = wanted[i]
    local k = s.skus[line.no]
    local mine = units_of(s, buyer, k)
    if mine + line.n > k.per_buyer then return { 6, line.no, k.per_buyer, mine } end
  end
end

-- The refusal for the first line that is short: {4, sku, free}, or {5, sku, free, release at} if units of it are on
-- hold.
local function short_of(s, wanted, same)
  local short
  for i = 1, #wanted do
    local line = wanted[i]
    local k = s.skus[line.no]
    if not short and k.total - k.next - k.ahead + k.returned < line.n then short = line.no end
  end
  if not short and same and not common(s, wanted) then short = wanted[1].no end
  if not short then return nil end
  local k = s.skus[short]
  if k.held == 0 then return { 4, short, free_of(k) } end
  write_back(s.deadlines)
  return { 5, short, free_of(k), next_expiry(s) }
end

-- Takes one free number, as a range. Fresh numbers below it become returned ones.
local function take_number(s, k, number)
  k.changed = true
  if number <= k.next then
    redis.call('ZREM', s.returned, k.no * 16777216 + number)
    k.returned = k.returned - 1
    return { number, number }
  end
  local first, last = fresh_from(s, k, 1)
  while first < number do
    last = math.min(last, number - 1)
    shelve(s, k, first, last)
    pass(k, first, last)
    first, last = fresh_from(s, k, 1)
  end
  pass(k, number, number)
  return { number, number }
end

-- Takes units for every line of a hold. The caller has checked that there are enough.
local function take(s, wanted, same, h)
  local number, ranges, n = same and common(s, wanted), {}, 0
  h.units, h.ranges = '', ranges
  for i = 1, #wanted do
    local line = wanted[i]
    local k = s.skus[line.no]
    local taken = number and take_number(s, k, number) or take_lowest(s, k, line.n)
    for at = 1, #taken, 2 do
      ranges[n + 1], ranges[n + 2], ranges[n + 3], n = k.no, taken[at], taken[at + 1], n + 3
    end
    h.units = h.units .. pack_ranges(k.no, taken)
  end
end

-- SipHash-2-4 with 128 bits of output (Aumasson and Bernstein). Lua counts in doubles, so each 64-bit word is a high
-- and a low half, from 0 to 2^32 - 1. The halves are separate variables, because tables cost several times as much.

local function plus(ah, al, bh, bl)
  local high, low = ah + bh, al + bl
  if low >= 4294967296 then high, low = high + 1, low - 4294967296 end
  return high >= 4294967296 and high - 4294967296 or high, low
end

-- Rotates a to the left, then xors b. `up` is 2 to the number of places, `down` is 2 to 32 less that number.
local function mixed(ah, al, up, down, bh, bl)
  local high = ah * up % 4294967296 + (al - al % down) / down
  local low = al * up % 4294967296 + (ah - ah % down) / down
  return bit.bxor(high, bh) % 4294967296, bit.bxor(low, bl) % 4294967296
end

-- A rotation by 32 places swaps the halves.
local function rounds(n, ah, al, bh, bl, ch, cl, dh, dl)
  for _ = 1, n do
    ah, al = plus(ah, al, bh, bl)
    bh, bl = mixed(bh, bl, 8192, 524288, ah, al)
    ch, cl = plus(ch, cl, dh, dl)
    dh, dl = mixed(dh, dl, 65536, 65536, ch, cl)
    ah, al = plus(al, ah, dh, dl)
    dh, dl = mixed(dh, dl, 2097152, 2048, ah, al)
    ch, cl = plus(ch, cl, bh, bl)
    bh, bl = mixed(bh, bl, 131072, 32768, ch, cl)
    ch, cl = cl, ch
  end
  return ah, al, bh, bl, ch, cl, dh, dl
end

local function siphash(secret, text)
  local bxor = bit.bxor
  local kl, kh, ll, lh = struct.unpack('<I4I4I4I4', secret)
  local ah, al = bxor(kh, 0x736f6d65) % 4294967296, bxor(kl, 0x70736575) % 4294967296
  local bh, bl = bxor(lh, 0x646f7261) % 4294967296, bxor(ll, 0x6e646f6d, 0xee) % 4294967296
  local ch, cl = bxor(kh, 0x6c796765) % 4294967296, bxor(kl, 0x6e657261) % 4294967296
  local dh, dl = bxor(lh, 0x74656462) % 4294967296, bxor(ll, 0x79746573) % 4294967296
  local padded = text .. string.rep('\0', 7 - #text % 8) .. string.char(#text % 256)
  for at = 1, #padded, 8 do
    local low, high = struct.unpack('<I4I4', padded, at)
    dh, dl = bxor(dh, high) % 4294967296, bxor(dl, low) % 4294967296
    ah, al, bh, bl, ch, cl, dh, dl = rounds(2, ah, al, bh, bl, ch, cl, dh, dl)
    ah, al = bxor(ah, high) % 4294967296, bxor(al, low) % 4294967296
  end
  cl = bxor(cl, 0xee) % 4294967296
  ah, al, bh, bl, ch, cl, dh, dl = rounds(4, ah, al, bh, bl, ch, cl, dh, dl)
  local first = struct.pack('>I4I4', bxor(ah, bh, ch, dh) % 4294967296, bxor(al, bl, cl, dl) % 4294967296)
  bl = bxor(bl, 0xdd) % 4294967296
  ah, al, bh, bl, ch, cl, dh, dl = rounds(4, ah, al, bh, bl, ch, cl, dh, dl)
  return struct.pack('>I4I4', bxor(ah, bh, ch, dh) % 4294967296, bxor(al, bl, cl, dl) % 4294967296) .. first
end

-- Begins to rebuild a sale from its ledger: halts the sale, and creates an empty staged sale.
--
-- KEYS[1-8]   the sale
-- KEYS[9-16]  the staged sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes; unique per rebuild
-- ARGV[3]     how many: 1 to 1,000; number of SKUs in the sale
--
-- 1  begun, by this or an earlier call
-- 2  the sale has no ledger
verb('sale_begin_rebuild', {}, { 'sale', 'staged' }, function()
  do
    if #ARGV ~= 3 then return wrong.count('arguments', #ARGV, 3) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'by', '16 bytes')
    end
    if not is.whole(ARGV[3], 1, 1000) then
      return wrong.argument(3, 'how many', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if not s.ledger then return 2 end
  if s.by == ARGV[2] then return 1 end
  halt(s, 2)
  redis.call('HSET', s.row, 'rebuild', ARGV[2], 'halt_reason', 2)
  close_sale(s)
  redis.call('UNLINK', unpack(KEYS, 9, 16))
  local kept = redis.call('HMGET', s.row, 'opens_at', 'closes_at')
  redis.call('HSET', KEYS[9], 'secret', ARGV[1], 'status', s.status, 'generation', 0, 'seq', 0, 'hold_us', int(s.hold),
    'opens_at', kept[1], 'closes_at', kept[2], 'ledger', 1)
  local loaded = sale_keys(9, ARGV[1])
  for no = 0, tonumber(ARGV[3]) - 1 do
    local k = sku(s, no)
    -- The switch sets how many units there are. Until then, `ahead` counts the units that were loaded.
    loaded.skus[no] = {
      no = no, total = 0, next = 0, ahead = 0, returned = 0, held = 0, confirmed = 0, withdrawn = 0,
      per_buyer = k.per_buyer, changed = true,
    }
  end
  append(loaded, 14, nil, '')
  close_sale(loaded)
  return 1
end)

-- Cancels holds at the request of their buyers. A hold whose deadline has passed expires instead.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2..]   for each hold, 1 to 128 of them:
--               reservation: 16 bytes
--
-- {answer, ...}  one per hold, in order, as `rushgate_1_sale_confirm` answers
--
-- flags: allow-oom
verb('sale_cancel_hold', { 'allow-oom' }, { 'sale' }, function()
  do
    local times = (#ARGV - 1) / 1
    if times % 1 ~= 0 or times < 1 or times > 128 then
      return wrong.count('arguments', #ARGV, '1 and 1 for each hold, 1 to 128 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    for at = 2, #ARGV, 1 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'reservation', '16 bytes')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  return decide_each(s, arguments(2, 1), 'cancel')
end)

-- Confirms holds that are paid for. A hold whose deadline has passed expires instead.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2..]   for each hold, 1 to 128 of them:
--               reservation: 16 bytes
--
-- {answer, ...}  one per hold, in order:
--   {0}        no such reservation
--   {1, hold}  done, by this or an earlier call
--   {2, hold}  decided; the ledger has not committed yet
--   {3, hold}  decided otherwise before
--   {4}        the sale is halted
--
-- flags: allow-oom
verb('sale_confirm', { 'allow-oom' }, { 'sale' }, function()
  do
    local times = (#ARGV - 1) / 1
    if times % 1 ~= 0 or times < 1 or times > 128 then
      return wrong.count('arguments', #ARGV, '1 and 1 for each hold, 1 to 128 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    for at = 2, #ARGV, 1 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'reservation', '16 bytes')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  return decide_each(s, arguments(2, 1), 'confirm')
end)

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
verb('sale_count_attempts', { 'allow-oom' }, { 'attempts' }, function()
  do
    local times = (#ARGV - 1) / 2
    if times % 1 ~= 0 or times < 0 or times > 32 then
      return wrong.count('arguments', #ARGV, '1 and 2 for each answer, 0 to 32 of them')
    end
    if #ARGV[1] ~= 8 then
      return wrong.argument(1, 'server', '8 bytes')
    end
    for at = 2, #ARGV, 2 do
      if not is.name(ARGV[at]) then
        return wrong.argument(at, 'answer', LIMITS.name)
      end
      if not is.whole(ARGV[at + 1], 0, 9007199254740991) then
        return wrong.argument(at + 1, 'count', '0 to 2^53 - 1')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
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
end)

-- Creates a sale, if its id is free. Creating it again changes nothing.
--
-- KEYS[1]    the sale's home
-- KEYS[2-9]  the sale
-- ARGV[1]    specification: specification
-- ARGV[2]    secret: 16 bytes; of the specification, as are the other arguments
-- ARGV[3]    hold time: 10,000 to 2,592,000,000,000 µs
-- ARGV[4]    opens: 0 to 2^64 - 1 or ''; moment in µs
-- ARGV[5]    closes: 0 to 2^64 - 1 or ''; moment in µs
-- ARGV[6]    ledger: 0 or 1; 1 if a ledger records the orders
-- ARGV[7..]  for each SKU, 1 to 1,000 of them:
--              units: 1 to 10,000,000
--              limit per buyer: 1 to 10,000
--
-- 1  created, by this or an earlier call
-- 0  another sale has the id
verb('sale_create', {}, { 'home', 'sale' }, function()
  do
    local times = (#ARGV - 6) / 2
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '6 and 2 for each SKU, 1 to 1000 of them')
    end
    if not is.specification(ARGV[1]) then
      return wrong.argument(1, 'specification', LIMITS.specification)
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'secret', '16 bytes')
    end
    if not is.whole(ARGV[3], 10000, 2592000000000) then
      return wrong.argument(3, 'hold time', '10,000 to 2,592,000,000,000 µs')
    end
    if not (ARGV[4] == '' or is.whole(ARGV[4], 0, 18446744073709551615)) then
      return wrong.argument(4, 'opens', '0 to 2^64 - 1 or \'\'')
    end
    if not (ARGV[5] == '' or is.whole(ARGV[5], 0, 18446744073709551615)) then
      return wrong.argument(5, 'closes', '0 to 2^64 - 1 or \'\'')
    end
    if not is.whole(ARGV[6], 0, 1) then
      return wrong.argument(6, 'ledger', '0 or 1')
    end
    for at = 7, #ARGV, 2 do
      if not is.whole(ARGV[at], 1, 10000000) then
        return wrong.argument(at, 'units', '1 to 10,000,000')
      end
      if not is.whole(ARGV[at + 1], 1, 10000) then
        return wrong.argument(at + 1, 'limit per buyer', '1 to 10,000')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local home = redis.call('GET', KEYS[1])
  if home and home ~= ARGV[1] then return 0 end
  redis.call('SET', KEYS[1], ARGV[1])
  if not sale_keys(2, ARGV[2]) then
    local row = KEYS[2]
    for at = 7, #ARGV, 2 do
      local k = { total = tonumber(ARGV[at]), next = 0, ahead = 0, returned = 0, held = 0, confirmed = 0, withdrawn = 0 }
      k.per_buyer = tonumber(ARGV[at + 1])
      redis.call('HSET', row, 'sku:' .. (at - 7) / 2, pack_sku(k))
    end
    redis.call('HSET', row, 'secret', ARGV[2], 'status', 0, 'generation', 1, 'seq', 0, 'hold_us', ARGV[3],
      'opens_at', ARGV[4], 'closes_at', ARGV[5], 'ledger', ARGV[6], 'through', 0)
  end
  return 1
end)

-- Ends a sale permanently.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
--
-- status  2 ended
verb('sale_end', {}, { 'sale' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if s.status ~= '2' then
    s.status = '2'
    append(s, 12, nil, '')
    close_sale(s)
  end
  return tonumber(s.status)
end)

-- Returns events of a sale, in order.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    skip: 0 to 2^53 - 1; how many events to skip
-- ARGV[3]    last: 0 to 2^53 - 1; how many events precede the last one to return
--
-- {event, ...}
--
-- flags: no-writes
verb('sale_events', { 'no-writes' }, { 'sale' }, function()
  do
    if #ARGV ~= 3 then return wrong.count('arguments', #ARGV, 3) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if not is.whole(ARGV[2], 0, 9007199254740991) then
      return wrong.argument(2, 'skip', '0 to 2^53 - 1')
    end
    if not is.whole(ARGV[3], 0, 9007199254740991) then
      return wrong.argument(3, 'last', '0 to 2^53 - 1')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  return redis.call('LRANGE', s.events, ARGV[2], ARGV[3])
end)

-- Expires holds whose deadline has passed, by deadline.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     at most: 1 to 1,000
--
-- expired  how many
--
-- flags: allow-oom
verb('sale_expire', { 'allow-oom' }, { 'sale' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if not is.whole(ARGV[2], 1, 1000) then
      return wrong.argument(2, 'at most', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if s.halted then return 0 end
  local expired = expired_holds(s, ARGV[2])
  if #expired == 0 then return 0 end
  expire(s, expired)
  close_sale(s)
  return #expired
end)

-- Returns entries that the ledger could not record, by event number.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    after: 0 to 2^64 - 1; event number
-- ARGV[3]    limit: 1 to 1,000
--
-- {failed, ...}  as in the key `failed`
--
-- flags: no-writes
verb('sale_failed_orders', { 'no-writes' }, { 'sale' }, function()
  do
    if #ARGV ~= 3 then return wrong.count('arguments', #ARGV, 3) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if not is.whole(ARGV[2], 0, 18446744073709551615) then
      return wrong.argument(2, 'after', '0 to 2^64 - 1')
    end
    if not is.whole(ARGV[3], 1, 1000) then
      return wrong.argument(3, 'limit', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  return redis.call('ZRANGEBYSCORE', s.failed, '(' .. ARGV[2], '+inf', 'LIMIT', '0', ARGV[3])
end)

-- Reports what the ledger has recorded, and returns the entries that it lacks: those of failed entries that are due
-- again, then those of the next events. One worker at a time follows a sale, under a lease.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    worker: 16 bytes; identifies the worker
-- ARGV[3]    generation: 0 to 4,294,967,295; of the report
-- ARGV[4]    through: 0 to 2^53 - 1; number of the latest event that the ledger has
-- ARGV[5]    events: 0 to 1,000; how many to read; 0 to give up the lease
-- ARGV[6]    lease: 10,000 to 86,400,000,000 µs; from now
-- ARGV[7..]  for each entry, 0 to 1,200 of them:
--              event: 0 to 2^53 - 1; its number
--              attempts: 0 to 4,294,967,295; how many have failed, 0 if the ledger has the entry now
--              retry after: 0 to 3,600,000,000 µs; from now
--              reason: text of at most 500 bytes
--
-- {1, generation, through, latest, entry, ...}
--   through: number of the last event that was read; latest: number of the sale's latest event
--   entry of a reservation: {event, attempts, reservation, hold}
--   entry of a stock change: {event, attempts, '', sku, total, limit per buyer, withdrawn units}
-- {2, until}  another worker follows the sale until then
-- {3}         the sale has no ledger
--
-- flags: allow-oom
verb('sale_follow_orders', { 'allow-oom' }, { 'sale' }, function()
  do
    local times = (#ARGV - 6) / 4
    if times % 1 ~= 0 or times < 0 or times > 1200 then
      return wrong.count('arguments', #ARGV, '6 and 4 for each entry, 0 to 1200 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'worker', '16 bytes')
    end
    if not is.whole(ARGV[3], 0, 4294967295) then
      return wrong.argument(3, 'generation', '0 to 4,294,967,295')
    end
    if not is.whole(ARGV[4], 0, 9007199254740991) then
      return wrong.argument(4, 'through', '0 to 2^53 - 1')
    end
    if not is.whole(ARGV[5], 0, 1000) then
      return wrong.argument(5, 'events', '0 to 1,000')
    end
    if not is.whole(ARGV[6], 10000, 86400000000) then
      return wrong.argument(6, 'lease', '10,000 to 86,400,000,000 µs')
    end
    for at = 7, #ARGV, 4 do
      if not is.whole(ARGV[at], 0, 9007199254740991) then
        return wrong.argument(at, 'event', '0 to 2^53 - 1')
      end
      if not is.whole(ARGV[at + 1], 0, 4294967295) then
        return wrong.argument(at + 1, 'attempts', '0 to 4,294,967,295')
      end
      if not is.whole(ARGV[at + 2], 0, 3600000000) then
        return wrong.argument(at + 2, 'retry after', '0 to 3,600,000,000 µs')
      end
      if not is.text(ARGV[at + 3], 500) then
        return wrong.argument(at + 3, 'reason', 'text of at most 500 bytes')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local RETRIES_MAX, WORK_MAX, FAILED_MAX = 100, 32000, 1000
  -- A moment further away than the longest lease or delay, µs, is none that a worker got.
  local LEASE_MAX, RETRY_MAX = 86400000000, 3600000000
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if not s.ledger then return { 3 } end
  local row = redis.call('HMGET', s.row, 'through', 'worker', 'worker_until')
  local through, worker, till = tonumber(row[1]), row[2], tonumber(row[3])
  if worker and worker ~= ARGV[2] and till > now and till - now <= LEASE_MAX then return { 2, till } end

  if worker == ARGV[2] and s.generation == tonumber(ARGV[3]) then
    through = math.max(through, math.min(tonumber(ARGV[4]), s.seq))
    for at = 7, #ARGV, 4 do
      local seq, attempts = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
      if attempts == 0 then
        redis.call('ZREMRANGEBYSCORE', s.failed, seq, seq)
      elseif seq >= 1 and seq <= through then
        store_failed(s, seq, now + tonumber(ARGV[at + 2]), attempts, ARGV[at + 3])
      end
    end
  end
  local n = tonumber(ARGV[5])
  if n == 0 then
    if worker == ARGV[2] then redis.call('HDEL', s.row, 'worker', 'worker_until') end
    redis.call('HSET', s.row, 'through', int(through))
    return { 1, s.generation, through, s.seq }
  end

  local entries, seen, work = {}, {}, 0

  -- Adds the entry of an event. True if it has one: a settled reservation has none.
  local function deliver(seq, attempts, event)
    local _, kind, of_hold = struct.unpack('>I7I1I1', event)
    if of_hold == 1 then
      local id = string.sub(event, 10, 25)
      local h = kind <= 3 and load_hold(s, id)
      if not h or h.state > 3 then return false end
      if not seen[id] then
        seen[id] = true
        entries[#entries + 1] = { seq, attempts, id, read(s.holds, id) }
        local ranges = ranges_of(h)
        for at = 1, #ranges, 3 do
          work = work + ranges[at + 2] - ranges[at + 1] + 1
        end
      end
      return true
    end
    if kind ~= 9 and kind ~= 10 then return false end
    local units = string.sub(event, 10)
    local no = struct.unpack(RANGE, units)
    local k, withdrawn = sku(s, no), kind == 10 and units or ''
    entries[#entries + 1] = { seq, attempts, '', no, k.total, k.per_buyer, withdrawn }
    work = work + #withdrawn / RANGE_BYTES
    return true
  end

  for _, member in ipairs(redis.call('ZRANGE', s.failed, 0, -1)) do
    local f = read_failed(member)
    if f.retry_at <= now or f.retry_at - now > RETRY_MAX then
      if #entries == RETRIES_MAX or work >= WORK_MAX then break end
      local event = redis.call('LINDEX', s.events, f.seq - 1)
      if not event or not deliver(f.seq, f.attempts, event) then redis.call('ZREM', s.failed, member) end
    end
  end

  local last = through
  if redis.call('ZCARD', s.failed) < FAILED_MAX then
    -- In parts, because the events of large carts are large.
    local PART, stop = 100, through + n
    while last < stop and work < WORK_MAX do
      local events = redis.call('LRANGE', s.events, last, math.min(last + PART, stop) - 1)
      if #events == 0 then break end
      local ids = {}
      for _, event in ipairs(events) do
        if string.byte(event, 9) == 1 then ids[#ids + 1] = string.sub(event, 10, 25) end
      end
      fetch(s.holds, ids)
      for _, event in ipairs(events) do
        if work >= WORK_MAX then break end
        last = last + 1
        deliver(last, 0, event)
      end
    end
  end
  -- A batch without entries needs no report.
  if #entries == 0 then through = last end
  redis.call('HSET', s.row, 'through', int(through), 'worker', ARGV[2], 'worker_until', int(now + tonumber(ARGV[6])))
  local answer = { 1, s.generation, last, s.seq }
  for _, entry in ipairs(entries) do
    answer[#answer + 1] = entry
  end
  return answer
end)

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
verb('sale_listen', { 'allow-oom' }, { 'sale' }, function()
  do
    if #ARGV ~= 3 then return wrong.count('arguments', #ARGV, 3) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if not is.hexadecimal(ARGV[2], 16) then
      return wrong.argument(2, 'inbox', '16 hexadecimal digits')
    end
    if not is.whole(ARGV[3], 0, 9007199254740991) then
      return wrong.argument(3, 'after', '0 to 2^53 - 1')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if s.seq ~= tonumber(ARGV[3]) then return 0 end
  -- The latest 64 processes are kept; the others find out by polling.
  local kept = s.listeners or ''
  if not string.find(kept, ARGV[2], 1, true) then
    redis.call('HSET', s.row, 'listeners', string.sub(kept, -16 * 63) .. ARGV[2])
  end
  return 1
end)

-- Loads orders of the ledger into a staged sale. An order that was loaded before changes nothing.
--
-- KEYS[1-8]   the sale
-- KEYS[9-16]  the staged sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes
-- ARGV[3]     generation: 1 to 4,294,967,295; the new generation
-- ARGV[4..]   for each order, 0 to 1,000 of them:
--               reservation: 16 bytes
--               buyer: name
--               state: held, confirmed, cancelled or expired
--               units: 0 to 320,000 bytes; sku(2) first(4) last(4) for each range that the order has now
--
-- 1  loaded
-- 0  another rebuild has begun since
verb('sale_load_orders', {}, { 'sale', 'staged' }, function()
  do
    local times = (#ARGV - 3) / 4
    if times % 1 ~= 0 or times < 0 or times > 1000 then
      return wrong.count('arguments', #ARGV, '3 and 4 for each order, 0 to 1000 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'by', '16 bytes')
    end
    if not is.whole(ARGV[3], 1, 4294967295) then
      return wrong.argument(3, 'generation', '1 to 4,294,967,295')
    end
    for at = 4, #ARGV, 4 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'reservation', '16 bytes')
      end
      if not is.name(ARGV[at + 1]) then
        return wrong.argument(at + 1, 'buyer', LIMITS.name)
      end
      if not (ARGV[at + 2] == 'held' or ARGV[at + 2] == 'confirmed' or ARGV[at + 2] == 'cancelled' or ARGV[at + 2] == 'expired') then
        return wrong.argument(at + 2, 'state', 'held, confirmed, cancelled or expired')
      end
      if not (#ARGV[at + 3] >= 0 and #ARGV[at + 3] <= 320000) then
        return wrong.argument(at + 3, 'units', '0 to 320,000 bytes')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if not s.halted or s.by ~= ARGV[2] then return 0 end
  local loaded = sale_keys(9, ARGV[1])
  -- This rebuild has switched, and the sale was halted again since.
  if not loaded then return 0 end
  loaded.generation = tonumber(ARGV[3])
  redis.call('HSET', loaded.row, 'generation', ARGV[3])
  local LAST = { confirmed = 4, cancelled = 5, expired = 6 }
  for at = 4, #ARGV, 4 do
    local h = { id = ARGV[at], buyer = ARGV[at + 1], units = ARGV[at + 3], lines = '', deadline = now + loaded.hold }
    if not read(loaded.holds, h.id) then
      local ranges = ranges_of(h)
      for range = 1, #ranges, 3 do
        local k = sku(loaded, ranges[range])
        k.ahead = k.ahead + ranges[range + 2] - ranges[range + 1] + 1
      end
      enter_hold(loaded, h)
      local last = LAST[ARGV[at + 2]]
      if last then end_hold(loaded, h, last) end
    end
  end
  close_sale(loaded)
  return 1
end)

-- Loads units that no order has into a staged sale. Units that were loaded before change nothing.
--
-- KEYS[1-8]   the sale
-- KEYS[9-16]  the staged sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes
-- ARGV[3]     generation: 1 to 4,294,967,295; the new generation
-- ARGV[4]     sku: 0 to 999; the SKU's number in the sale
-- ARGV[5]     place: free or withdrawn
-- ARGV[6..]   for each range, 1 to 10,000 of them:
--               first: 1 to 10,000,000
--               last: 1 to 10,000,000
--
-- 1  loaded
-- 0  another rebuild has begun since
verb('sale_load_units', {}, { 'sale', 'staged' }, function()
  do
    local times = (#ARGV - 5) / 2
    if times % 1 ~= 0 or times < 1 or times > 10000 then
      return wrong.count('arguments', #ARGV, '5 and 2 for each range, 1 to 10000 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'by', '16 bytes')
    end
    if not is.whole(ARGV[3], 1, 4294967295) then
      return wrong.argument(3, 'generation', '1 to 4,294,967,295')
    end
    if not is.whole(ARGV[4], 0, 999) then
      return wrong.argument(4, 'sku', '0 to 999')
    end
    if not (ARGV[5] == 'free' or ARGV[5] == 'withdrawn') then
      return wrong.argument(5, 'place', 'free or withdrawn')
    end
    for at = 6, #ARGV, 2 do
      if not is.whole(ARGV[at], 1, 10000000) then
        return wrong.argument(at, 'first', '1 to 10,000,000')
      end
      if not is.whole(ARGV[at + 1], 1, 10000000) then
        return wrong.argument(at + 1, 'last', '1 to 10,000,000')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if not s.halted or s.by ~= ARGV[2] then return 0 end
  local loaded = sale_keys(9, ARGV[1])
  -- This rebuild has switched, and the sale was halted again since.
  if not loaded then return 0 end
  loaded.generation = tonumber(ARGV[3])
  redis.call('HSET', loaded.row, 'generation', ARGV[3])
  local k, withdrawn, new = sku(loaded, tonumber(ARGV[4])), ARGV[5] == 'withdrawn', {}
  for at = 6, #ARGV, 2 do
    local first, last = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    local code, n = int(k.no * 16777216 + last), last - first + 1
    if not withdrawn then
      for unit = first, last do
        local of_unit = int(k.no * 16777216 + unit)
        local added = redis.call('ZADD', loaded.returned, 'NX', of_unit, of_unit)
        k.returned, k.ahead = k.returned + added, k.ahead + added
      end
    elseif redis.call('ZADD', loaded.withdrawn, 'NX', code, struct.pack(RANGE, k.no, first, last)) == 1 then
      k.withdrawn, k.ahead = k.withdrawn + n, k.ahead + n
      table.insert(new, struct.pack(RANGE, k.no, first, last))
    end
  end
  k.changed = true
  if #new > 0 then
    append(loaded, 10, nil, table.concat(new))
  end
  close_sale(loaded)
  return 1
end)

-- Opens a sale.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
--
-- status  0 created, 1 open, 2 ended
verb('sale_open', {}, { 'sale' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if s.status == '0' then
    s.status = '1'
    append(s, 11, nil, '')
    close_sale(s)
  end
  return tonumber(s.status)
end)

-- Halts a sale until it is rebuilt from its ledger.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    generation: 1 to 4,294,967,295; a sale with another generation is not halted
-- ARGV[3]    reason: 0 to 2; its position in `HaltReason::ALL`
--
-- 0  the sale is not halted
-- 1  it is halted
-- 2  it has no ledger
--
-- flags: allow-oom
verb('sale_halt', { 'allow-oom' }, { 'sale' }, function()
  do
    if #ARGV ~= 3 then return wrong.count('arguments', #ARGV, 3) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if not is.whole(ARGV[2], 1, 4294967295) then
      return wrong.argument(2, 'generation', '1 to 4,294,967,295')
    end
    if not is.whole(ARGV[3], 0, 2) then
      return wrong.argument(3, 'reason', '0 to 2')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  if not s.ledger then return 2 end
  if not s.halted and s.generation == tonumber(ARGV[2]) then
    halt(s, ARGV[3])
    close_sale(s)
  end
  return s.halted and 1 or 0
end)

-- Answers reservations that were made before, as `rushgate_1_sale_reserve` does, when the server's memory is full. For a
-- new reservation, the error is `OOM`.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2..]   for each request, 1 to 128 of them:
--               reservation: 16 bytes
--               buyer: name
--               cart: cart
--
-- {answer, ...}  one per request, in order:
--   {2, hold}  idempotent replay: reserved before
--   {3}        the reservation was made with another cart
--
-- flags: no-writes
verb('sale_replay', { 'no-writes' }, { 'sale' }, function()
  do
    local times = (#ARGV - 1) / 3
    if times % 1 ~= 0 or times < 1 or times > 128 then
      return wrong.count('arguments', #ARGV, '1 and 3 for each request, 1 to 128 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    for at = 2, #ARGV, 3 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'reservation', '16 bytes')
      end
      if not is.name(ARGV[at + 1]) then
        return wrong.argument(at + 1, 'buyer', LIMITS.name)
      end
      if not is.cart(ARGV[at + 2]) then
        return wrong.argument(at + 2, 'cart', LIMITS.cart)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  local answers = {}
  for at = 2, #ARGV, 3 do
    local h = load_hold(s, ARGV[at])
    if not h then return FULL end
    local is_other = h.lines ~= ARGV[at + 2] and h.lines ~= ''
    answers[#answers + 1] = is_other and { 3 } or { 2, read(s.holds, ARGV[at]) }
  end
  return answers
end)

-- Returns one reservation.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    reservation: 16 bytes
--
-- {hold}
-- {}      not found
--
-- flags: no-writes
verb('sale_reservation', { 'no-writes' }, { 'sale' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'reservation', '16 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  local packed = read(s.holds, ARGV[2])
  return packed and { packed } or {}
end)

-- Reserves units for buyers, each request all or nothing.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2..]   for each request, 1 to 128 of them:
--               reservation: 16 bytes
--               buyer: name
--               cart: cart
--
-- {answer, ...}  one per request, in order: the packed hold if it is reserved by this call, otherwise a list:
--   hold                   reserved
--   {2, hold}              idempotent replay: reserved before
--   {3}                    the reservation was made with another cart
--   {4, ...} to {10, ...}  as `rushgate_1_sale_reserve_by_key` answers
verb('sale_reserve', {}, { 'sale' }, function()
  do
    local times = (#ARGV - 1) / 3
    if times % 1 ~= 0 or times < 1 or times > 128 then
      return wrong.count('arguments', #ARGV, '1 and 3 for each request, 1 to 128 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    for at = 2, #ARGV, 3 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'reservation', '16 bytes')
      end
      if not is.name(ARGV[at + 1]) then
        return wrong.argument(at + 1, 'buyer', LIMITS.name)
      end
      if not is.cart(ARGV[at + 2]) then
        return wrong.argument(at + 2, 'cart', LIMITS.cart)
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end

  -- Parses a cart, with a refusal if a line has an unknown SKU. Most buyers request the same, so results are cached.
  local carts = {}
  local function read_cart(cart)
    local wanted = carts[cart]
    if not wanted then
      wanted = { same = string.sub(cart, 1, 4) == 'same' }
      for no, n in string.gmatch(cart, ' (-?%d+)%*(%d+)') do
        wanted[#wanted + 1] = { no = tonumber(no), n = tonumber(n) }
        if not sku(s, tonumber(no)) then wanted.refusal = wanted.refusal or { 9, #wanted - 1 } end
      end
      if #wanted == 1 and not wanted.same and not wanted.refusal then wanted.sku = sku(s, wanted[1].no) end
      carts[cart] = wanted
    end
    return wanted
  end

  -- The answer if no new reservation is accepted.
  local function shut()
    if s.status == '2' then return { 8 } end
    if s.status == '0' or (s.opens and now < s.opens) then return { 7 } end
    if s.closes and s.closes <= now then return { 8 } end
    return retry_at(s) and { 10, retry_at(s) }
  end
  local is_shut = shut()

  -- Prefetches what all requests need.
  local WIDTH = 3
  local fields = {}
  for at = 2, #ARGV, WIDTH do
    local buyer, wanted = ARGV[at + 1], read_cart(ARGV[at + 2])
    if wanted.sku then
      fields[#fields + 1] = buyer .. wanted.sku.suffix
    else
      for i = 1, #wanted do
        local k = s.skus[wanted[i].no]
        if k then fields[#fields + 1] = buyer .. k.suffix end
      end
    end
  end
  fetch(s.holds, arguments(2, WIDTH))
  fetch(s.buyers, fields)

  -- Expired holds may be all that stands in a buyer's way. Once there are none, there are none for the other requests.
  local function expired_now()
    local expired = s.expired or expired_holds(s, 100)
    s.expired = #expired == 0 and expired or nil
    return expired
  end

  local began = false
  local function answer(id, buyer, cart)
    local h = load_hold(s, id)
    if h then
      if h.lines ~= cart and h.lines ~= '' then return { 3 } end
      return { 2, read(s.holds, id) }
    end
    local wanted = read_cart(cart)
    if wanted.refusal then return wanted.refusal end
    if is_shut then return is_shut end

    local same = wanted.same
    -- The reason to refuse: the purchase limit, or the first line that is short.
    local refusal = over_limit(s, wanted, buyer) or short_of(s, wanted, same)
    local expired = refusal and expired_now()
    if refusal and #expired == 0 then return refusal end
    began = true
    if refusal then
      expire(s, expired)
      refusal = over_limit(s, wanted, buyer) or short_of(s, wanted, same)
      if refusal then return refusal end
    end
    -- All fields are set at once, because a Lua table is rehashed when it grows.
    h = {
      id = id, buyer = buyer, lines = cart, deadline = now + s.hold,
      state = 0, seq = 0, generation = 0, units = '', ranges = wanted,
    }
    take(s, wanted, same, h)
    return enter_hold(s, h)
  end

  -- Fast path for the usual request: units of one SKU that has only fresh ones free, for a buyer who has none of it.
  -- Answers as `answer` does; nil for any other request.
  local known_holds, known_buyers, deadline = s.holds.values, s.buyers.values, now + s.hold
  local function answer_usual(id, buyer, cart)
    local wanted = carts[cart]
    local k, n = wanted.sku, wanted[1].n
    if is_shut or not k or known_holds[id] then return nil end
    if n > k.per_buyer or k.returned > 0 or k.ahead > 0 then return nil end
    local field, first, last = buyer .. k.suffix, k.next + 1, k.next + n
    if known_buyers[field] or last > k.total then return nil end
    began, k.changed, k.held, k.next = true, true, k.held + n, last
    set_field(s.buyers, field, n == 1 and '1' or int(n))
    return write_hold(s, id, buyer, cart, deadline, struct.pack(RANGE, k.no, first, last))
  end

  local answers, asked = {}, ARGV
  for at = 2, #asked, WIDTH do
    local id, buyer, cart = asked[at], asked[at + 1], asked[at + 2]
    answers[#answers + 1] = answer_usual(id, buyer, cart) or answer(id, buyer, cart)
  end
  if began then close_sale(s) end
  return answers
end)

-- Reserves units under the buyer's idempotency key: `rushgate_1_sale_reserve` for programs that cannot derive the
-- reservation id.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     key: name; the buyer's idempotency key: reuse it to retry
-- ARGV[3]     buyer: name
-- ARGV[4]     same: 0 or 1; 1 for the same number in every line
-- ARGV[5..]   for each line, 1 to 32 of them:
--               sku: -1 to 999, each once; the SKU's number in the sale, -1 if the sale does not have it
--               quantity: 1 to 1,000
--
-- {1, hold, reservation}        reserved; the 16 bytes of the reservation are needed to confirm and cancel it
-- {2, hold, reservation}        idempotent replay: reserved before under this key
-- {3}                           the key was used with another cart
-- {4, sku, free}                sold out
-- {5, sku, free, release at}    all on hold; the earliest deadline, or ''
-- {6, sku, limit, has}          purchase limit exceeded
-- {7}                           not open
-- {8}                           ended
-- {9, line}                     no such SKU; lines count from 0
-- {10, retry at}                retry later: the sale is halted, or honors only receipts at the moment
verb('sale_reserve_by_key', {}, { 'sale' }, function()
  do
    local times = (#ARGV - 4) / 2
    if times % 1 ~= 0 or times < 1 or times > 32 then
      return wrong.count('arguments', #ARGV, '4 and 2 for each line, 1 to 32 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if not is.name(ARGV[2]) then
      return wrong.argument(2, 'key', LIMITS.name)
    end
    if not is.name(ARGV[3]) then
      return wrong.argument(3, 'buyer', LIMITS.name)
    end
    if not is.whole(ARGV[4], 0, 1) then
      return wrong.argument(4, 'same', '0 or 1')
    end
    local seen = {}
    for at = 5, #ARGV, 2 do
      local meant = is.whole(ARGV[at], -1, 999)
      if not meant then return wrong.argument(at, 'sku', '-1 to 999, each once') end
      if meant ~= -1 and seen[meant] then return wrong.argument(at, 'sku', 'in no other place') end
      seen[meant] = true
      if not is.whole(ARGV[at + 1], 1, 1000) then
        return wrong.argument(at + 1, 'quantity', '1 to 1,000')
      end
    end
  end
  local sale = string.match(KEYS[1], '^rg:{s:(.*)}:row$')
  local id = siphash(ARGV[1], sale .. '\0' .. ARGV[3] .. '\0' .. ARGV[2] .. '\0')
  local cart = { tonumber(ARGV[4]) == 1 and 'same' or 'any' }
  for at = 5, #ARGV, 2 do
    table.insert(cart, tonumber(ARGV[at]) .. '*' .. tonumber(ARGV[at + 1]))
  end
  ARGV = { ARGV[1], id, ARGV[3], table.concat(cart, ' ') }
  local answers = verbs.sale_reserve()
  if answers.ok then return answers end
  local answer = answers[1]
  if type(answer) == 'string' then return { 1, answer, id } end
  if answer[1] == 2 then answer[3] = id end
  return answer
end)

-- Restores a reservation from a receipt, if the store has lost it: with the same units if they are free, otherwise with
-- others. The caller must have verified the signature of the receipt.
--
-- KEYS[1-8]   the sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     reservation: 16 bytes
-- ARGV[3]     buyer: name
-- ARGV[4]     generation: 1 to 4,294,967,295; of the receipt
-- ARGV[5]     deadline: 0 to 2^64 - 1; of the receipt, moment in µs
-- ARGV[6]     same: 0 or 1; 1 if other units must have one number in every line
-- ARGV[7]     units: 10 to 320,000 bytes; sku(2) first(4) last(4) for each range, line by line
--
-- {1, hold}                     restored
-- {2, hold}                     not lost; the hold as it is now
-- {4, sku, free}                too few units are free; the first line that is short
-- {5, sku, free, release at}    the same, and some are on hold; the earliest deadline, or ''
-- {6, sku, limit, has}          purchase limit exceeded
-- {10, retry at}                the sale is halted
-- {11}                          the hold would have expired
verb('sale_restore', {}, { 'sale' }, function()
  do
    if #ARGV ~= 7 then return wrong.count('arguments', #ARGV, 7) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'reservation', '16 bytes')
    end
    if not is.name(ARGV[3]) then
      return wrong.argument(3, 'buyer', LIMITS.name)
    end
    if not is.whole(ARGV[4], 1, 4294967295) then
      return wrong.argument(4, 'generation', '1 to 4,294,967,295')
    end
    if not is.whole(ARGV[5], 0, 18446744073709551615) then
      return wrong.argument(5, 'deadline', '0 to 2^64 - 1')
    end
    if not is.whole(ARGV[6], 0, 1) then
      return wrong.argument(6, 'same', '0 or 1')
    end
    if not (#ARGV[7] >= 10 and #ARGV[7] <= 320000) then
      return wrong.argument(7, 'units', '10 to 320,000 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  local packed = read(s.holds, ARGV[2])
  if packed then return { 2, packed } end
  local generation, deadline = tonumber(ARGV[4]), tonumber(ARGV[5])
  if s.ledger and generation >= s.generation and not s.halted then
    -- A reservation of this generation is missing, so the store has lost a write.
    halt(s, 0)
    close_sale(s)
  end
  if s.halted then return { 10, retry_at(s) } end
  if s.stopped and generation < s.generation and deadline > s.stopped then
    -- A hold that was active when the sale was halted gets a whole hold time from the switch on.
    deadline = s.switched + s.hold
  end
  if deadline <= now then return { 11 } end
  local h, wanted = { id = ARGV[2], buyer = ARGV[3], units = ARGV[7], lines = '', deadline = deadline }, {}
  local ranges = ranges_of(h)
  for at = 1, #ranges, 3 do
    local no, line = ranges[at], wanted[#wanted]
    if not line or line.no ~= no then
      line = { no = no, n = 0 }
      table.insert(wanted, line)
    end
    line.n = line.n + ranges[at + 2] - ranges[at + 1] + 1
    sku(s, no)
  end
  local same, refusal = ARGV[6] == '1', over_limit(s, wanted, h.buyer)
  if refusal then return refusal end
  local all_free = true
  for at = 1, #ranges, 3 do
    for unit = ranges[at + 1], ranges[at + 2] do
      all_free = all_free and is_free(s, s.skus[ranges[at]], unit)
    end
  end
  refusal = not all_free and short_of(s, wanted, same)
  if refusal then return refusal end
  if all_free then
    for at = 1, #ranges, 3 do
      for unit = ranges[at + 1], ranges[at + 2] do
        take_number(s, s.skus[ranges[at]], unit)
      end
    end
  else
    take(s, wanted, same, h)
  end
  enter_hold(s, h)
  close_sale(s)
  return { 1, pack_hold(h) }
end)

-- Makes all entries due that the ledger could not record.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
--
-- failed  how many there are
--
-- flags: allow-oom
verb('sale_retry_orders', { 'allow-oom' }, { 'sale' }, function()
  do
    if #ARGV ~= 1 then return wrong.count('arguments', #ARGV, 1) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  local all = redis.call('ZRANGE', s.failed, 0, -1)
  for _, member in ipairs(all) do
    local f = read_failed(member)
    if f.retry_at > now then store_failed(s, f.seq, now, f.attempts, string.sub(member, FAILED_ORDER_BYTES + 1)) end
  end
  return #all
end)

-- Reports to the sale what the ledger has committed, in the order given.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    generation: 1 to 4,294,967,295; of the orders. If the sale has another one, nothing is changed
-- ARGV[3..]  for each reservation, 1 to 1,000 of them:
--              reservation: 16 bytes
--              verdict: confirmed, cancelled, expired, rejected or quarantined; quarantined if others have its units
--
-- {outcome, state, ...}  for each reservation: 0 unknown, 1 settled, 2 unchanged
--
-- flags: allow-oom
verb('sale_settle', { 'allow-oom' }, { 'sale' }, function()
  do
    local times = (#ARGV - 2) / 2
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '2 and 2 for each reservation, 1 to 1000 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if not is.whole(ARGV[2], 1, 4294967295) then
      return wrong.argument(2, 'generation', '1 to 4,294,967,295')
    end
    for at = 3, #ARGV, 2 do
      if #ARGV[at] ~= 16 then
        return wrong.argument(at, 'reservation', '16 bytes')
      end
      if not (ARGV[at + 1] == 'confirmed' or ARGV[at + 1] == 'cancelled' or ARGV[at + 1] == 'expired' or ARGV[at + 1] == 'rejected' or ARGV[at + 1] == 'quarantined') then
        return wrong.argument(at + 1, 'verdict', 'confirmed, cancelled, expired, rejected or quarantined')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  local EXPECTED = { confirmed = 1, cancelled = 2, expired = 3 }
  local KIND = {
    confirmed = 4, cancelled = 5, expired = 6, rejected = 7, quarantined = 8,
  }
  local answer = {}
  fetch(s.holds, arguments(3, 2))
  for at = 3, #ARGV, 2 do
    local h, verdict, outcome = load_hold(s, ARGV[at]), ARGV[at + 1], 0
    if h then
      outcome = 2
      local expected = EXPECTED[verdict]
      local waits = h.state == expected or (not expected and h.state <= 3)
      if waits and s.generation == tonumber(ARGV[2]) then
        end_hold(s, h, KIND[verdict])
        outcome = 1
      end
    end
    table.insert(answer, outcome)
    table.insert(answer, h and h.state or 0)
  end
  close_sale(s)
  return answer
end)

-- Returns the state of a sale.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
-- ARGV[2]    how many: 1 to 1,000; number of SKUs in the sale
--
-- {status, generation, latest event, earliest deadline or '', now, sku, ..., halted since or '', reason,
--   receipts until, through, behind since, failed, worker until}
--   sku: one for each SKU, packed; receipts until: until when only receipts are honored, or ''; through: number of the
--   latest event that was delivered to the ledger; behind since: time of the event after it, or ''; failed: how many
--   entries failed; worker until: end of the lease of the worker that follows the sale, or ''
--
-- flags: no-writes
verb('sale_show', { 'no-writes' }, { 'sale' }, function()
  do
    if #ARGV ~= 2 then return wrong.count('arguments', #ARGV, 2) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if not is.whole(ARGV[2], 1, 1000) then
      return wrong.argument(2, 'how many', '1 to 1,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  local answer = { tonumber(s.status), s.generation, s.seq, next_expiry(s), now }
  local fields = {}
  for no = 0, tonumber(ARGV[2]) - 1 do
    table.insert(fields, 'sku:' .. no)
  end
  for _, packed in ipairs(redis.call('HMGET', s.row, unpack(fields))) do
    table.insert(answer, packed)
  end
  table.insert(answer, s.halted or '')
  table.insert(answer, s.reason or 0)
  table.insert(answer, s.receipts and now < s.receipts and s.receipts or '')
  local delivery = redis.call('HMGET', s.row, 'through', 'worker', 'worker_until')
  local through = tonumber(delivery[1]) or 0
  local behind = s.ledger and redis.call('LINDEX', s.events, through)
  table.insert(answer, through)
  table.insert(answer, behind and struct.unpack('>I7', behind) or '')
  table.insert(answer, redis.call('ZCARD', s.failed))
  table.insert(answer, delivery[2] and delivery[3] or '')
  return answer
end)

-- Adds units, numbered from the last one on, or withdraws the highest free ones permanently.
--
-- KEYS[1-8]    the sale
-- KEYS[9-10]   the replay cache
-- ARGV[1]      secret: 16 bytes
-- ARGV[2]      op: 8 bytes
-- ARGV[3]      sku: 0 to 999; the SKU's number in the sale
-- ARGV[4]      add: 0 to 10,000,000; 0 to withdraw
-- ARGV[5]      withdraw: 0 to 10,000,000; 0 to add
-- ARGV[6]      most: 1 to 10,000,000; the most units that a SKU may have
-- ARGV[7]      at once: 1 to 10,000,000; the most returned units that one call may withdraw
--
-- {1, sku}    changed; the SKU, packed
-- {2, free}   fewer units are free
-- {3, most}   the change is too large; the most units it may have
-- {4}         the sale is halted
-- {5}         the op was used for another change
verb('sale_stock', {}, { 'sale', 'answers' }, function()
  do
    if #ARGV ~= 7 then return wrong.count('arguments', #ARGV, 7) end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if #ARGV[2] ~= 8 then
      return wrong.argument(2, 'op', '8 bytes')
    end
    if not is.whole(ARGV[3], 0, 999) then
      return wrong.argument(3, 'sku', '0 to 999')
    end
    if not is.whole(ARGV[4], 0, 10000000) then
      return wrong.argument(4, 'add', '0 to 10,000,000')
    end
    if not is.whole(ARGV[5], 0, 10000000) then
      return wrong.argument(5, 'withdraw', '0 to 10,000,000')
    end
    if not is.whole(ARGV[6], 1, 10000000) then
      return wrong.argument(6, 'most', '1 to 10,000,000')
    end
    if not is.whole(ARGV[7], 1, 10000000) then
      return wrong.argument(7, 'at once', '1 to 10,000,000')
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  local once = replay_keys(9, ARGV[2], op_of.other)
  local no, more, n = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
  local asked = no .. ' ' .. int(more) .. ' ' .. int(n)
  local kept = remembered(once)
  if kept then return kept[1] == asked and kept[2] or { 5 } end

  -- Stores the request with the answer, so that another change with the same op is noticed.
  local function keep(answer)
    return remember(once, { asked, answer })[2]
  end

  if s.halted then return keep({ 4 }) end
  local k = sku(s, no)
  if free_of(k) < n then return keep({ 2, free_of(k) }) end
  local most = more > 0 and tonumber(ARGV[6]) - k.total or fresh_of(k) + tonumber(ARGV[7])
  if more + n > most then return keep({ 3, most }) end

  -- The highest fresh numbers as ranges, the highest range first.
  local function highest_fresh(left)
    local ranges, top = {}, k.total
    while left > 0 and top > k.next do
      local high, low = int(k.no * 16777216 + top), int(k.no * 16777216 + k.next + 1)
      local range = redis.call('ZREVRANGEBYSCORE', s.withdrawn, high, low, 'LIMIT', '0', '1')[1]
      local first, last = k.next + 1, k.next
      if range then
        local _
        _, first, last = struct.unpack(RANGE, range)
      end
      if last < top then
        local from = math.max(last + 1, top - left + 1)
        table.insert(ranges, { from, top })
        left = left - (top - from + 1)
      end
      top = first - 1
    end
    return ranges
  end

  -- Withdraws the highest free numbers: fresh ones, then returned ones. Returns them.
  local function withdraw_highest()
    local fresh = math.min(fresh_of(k), n)
    local above = highest_fresh(fresh)
    local taken = take_returned(s, k, n - fresh, false)
    withdraw(s, k.no, taken)
    for at = #above, 1, -1 do
      add_range(taken, above[at][1], above[at][2])
    end
    if fresh > 0 then
      -- All numbers from the lowest of them on are withdrawn now, so one range replaces them.
      local lowest = above[#above][1]
      redis.call('ZREMRANGEBYSCORE', s.withdrawn, scores(k, lowest, 16777216 - 1))
      withdraw(s, k.no, { lowest, k.total })
      k.ahead = k.ahead + fresh
    end
    k.withdrawn = k.withdrawn + n
    return taken
  end

  k.changed = true
  if more > 0 then
    local first = k.total + 1
    k.total = k.total + more
    append(s, 9, nil, pack_ranges(k.no, { first, k.total }))
  else
    append(s, 10, nil, pack_ranges(k.no, withdraw_highest()))
  end
  close_sale(s)
  return keep({ 1, pack_sku(k) })
end)

-- Replaces a sale with its staged sale, if the staged units match the stock.
--
-- KEYS[1-8]   the sale
-- KEYS[9-16]  the staged sale
-- ARGV[1]     secret: 16 bytes
-- ARGV[2]     by: 16 bytes
-- ARGV[3]     generation: 1 to 4,294,967,295; the new generation
-- ARGV[4]     grace: 0 to 3,600,000,000 µs; how long only receipts are honored after the switch
-- ARGV[5..]   for each SKU, 1 to 1,000 of them:
--               began with: 1 to 10,000,000; units in the specification
--               total: 1 to 10,000,000
--               handed out: 0 to 10,000,000; the highest number that an order has
--               ahead: 0 to 10,000,000; how many numbers above it were withdrawn
--
-- 1  the sale has resumed, by this or an earlier call
-- 0  another rebuild has begun since
-- 2  the staged units do not match the stock, or the generation is not higher
verb('sale_switch', {}, { 'sale', 'staged' }, function()
  do
    local times = (#ARGV - 4) / 4
    if times % 1 ~= 0 or times < 1 or times > 1000 then
      return wrong.count('arguments', #ARGV, '4 and 4 for each SKU, 1 to 1000 of them')
    end
    if #ARGV[1] ~= 16 then
      return wrong.argument(1, 'secret', '16 bytes')
    end
    if #ARGV[2] ~= 16 then
      return wrong.argument(2, 'by', '16 bytes')
    end
    if not is.whole(ARGV[3], 1, 4294967295) then
      return wrong.argument(3, 'generation', '1 to 4,294,967,295')
    end
    if not is.whole(ARGV[4], 0, 3600000000) then
      return wrong.argument(4, 'grace', '0 to 3,600,000,000 µs')
    end
    for at = 5, #ARGV, 4 do
      if not is.whole(ARGV[at], 1, 10000000) then
        return wrong.argument(at, 'began with', '1 to 10,000,000')
      end
      if not is.whole(ARGV[at + 1], 1, 10000000) then
        return wrong.argument(at + 1, 'total', '1 to 10,000,000')
      end
      if not is.whole(ARGV[at + 2], 0, 10000000) then
        return wrong.argument(at + 2, 'handed out', '0 to 10,000,000')
      end
      if not is.whole(ARGV[at + 3], 0, 10000000) then
        return wrong.argument(at + 3, 'ahead', '0 to 10,000,000')
      end
    end
  end
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  local s = sale_keys(1, ARGV[1])
  if not s then return MISSING end
  local generation = tonumber(ARGV[3])
  if s.by ~= ARGV[2] then return 0 end
  if not s.halted then return s.generation == generation and 1 or 0 end
  local loaded = sale_keys(9, ARGV[1])
  if not loaded then return 0 end
  if generation <= s.generation then return 2 end
  for at = 5, #ARGV, 4 do
    if sku(loaded, (at - 5) / 4).ahead ~= ARGV[at + 2] + ARGV[at + 3] then return 2 end
  end
  for at = 5, #ARGV, 4 do
    local k, began, total = sku(loaded, (at - 5) / 4), tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    k.changed, k.total, k.next, k.ahead = true, total, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    if total > began then
      append(loaded, 9, nil, pack_ranges(k.no, { began + 1, total }))
    end
  end
  loaded.status = s.status
  close_sale(loaded)
  local grace = tonumber(ARGV[4])
  -- What was loaded came from the ledger.
  redis.call('HSET', loaded.row, 'generation', ARGV[3], 'rebuild', ARGV[2], 'stopped_at', int(s.halted),
    'switched_at', int(now), 'receipts_until', grace > 0 and int(now + grace) or '', 'through', int(loaded.seq))
  if s.listeners then
    loaded.listeners = s.listeners
    tell_listeners(loaded)
  end
  for at = 1, 8 do
    redis.call('UNLINK', KEYS[at])
    if redis.call('EXISTS', KEYS[at + 8]) == 1 then
      redis.call('RENAME', KEYS[at + 8], KEYS[at])
    end
  end
  return 1
end)
end
