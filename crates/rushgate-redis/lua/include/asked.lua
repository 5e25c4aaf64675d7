-- include: put
-- include: unique
-- A moment, or one so long from now.
local function moment_asked(plus, number)
  if plus == '+' then return now + number end
  return tonumber(number)
end

-- What tasks ask for. Most of a call ask for the same; of another call it may mean another moment.
local function terms_of(q, text)
  local of = q.terms[text]
  if not of then
    local plus, due, priority, mode, max_wait, max, date, period, key =
      string.match(text, '^(%+?)(%d+) (%d) (%d) (%d+) (%d+)(<?%+?%d*)!?(%d*) ?(.*)$')
    local deadline = moment_asked(string.match(date, '^<(%+?)(%d+)$'))
    due = moment_asked(plus, due)
    key = key ~= '' and key or nil
    of = terms(due, tonumber(priority), tonumber(mode), tonumber(max_wait), tonumber(max), key, deadline)
    of.period = tonumber(period)
    of.before = key and string.char(#key) .. key
    if deadline then of.before = struct.pack('>I7', deadline) .. (of.before or '') end
    q.terms[text] = of
  end
  return of
end

-- Whether tasks ask for a deadline that leaves no time, from an argument on to another. Most of a call ask for the same.
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

local TOO_LATE = { err = 'INVALID the deadline must be after the time from which on the task may be given out' }

-- Puts a task in as it was asked for, if its id is not unique and there is room. Further outcome: 7 put in lately, and
-- until when its id is unique.
local function put_asked(q, id, text, body)
  local of, till = terms_of(q, text), q.unique[id]
  if till and not read(q.records, id) then return 7, till end
  if of.before then body = of.before .. body end
  local outcome, number, dropped = put(q, id, of, body, true)
  if of.period and (outcome == 1 or outcome == 3 or outcome == 6) then begin_period(q, id, now + of.period) end
  return outcome, number, dropped
end
