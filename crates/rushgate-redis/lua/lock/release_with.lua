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
-- include: now
-- include: line
-- include: put
-- include: asked
-- include: once
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
