-- include: put
-- include: unique
-- include: wait
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
