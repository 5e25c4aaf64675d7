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
-- include: now
-- include: queue
-- include: schedule
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
