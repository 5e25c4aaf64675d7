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
-- include: now
-- include: put
-- include: schedule
local q, of = queue_keys(1), schedule_keys(38)
local s = read_schedule(of, ARGV[1])
local is_due = s and s.paused == 0 and s.next > 0 and s.next <= now
if not is_due or s.revision ~= tonumber(ARGV[2]) then return { 0 } end
touch(q)
if reap(q) then return AGAIN end
local added, latest = 0, 0
for at = 4, #ARGV, 2 do
  local due = tonumber(ARGV[at + 1])
  if put(q, ARGV[at], terms(due, s.priority, KEEP, 0, s.max), s.body, false) == 1 then added = added + 1 end
  latest = math.max(latest, due)
end
s.next, s.previous = tonumber(ARGV[3]), latest > 0 and latest or s.previous
s.revision = next_revision(q)
store_schedule(of, s)
finish(q)
return { 1, added }
