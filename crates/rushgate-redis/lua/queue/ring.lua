-- Declines a wake-up: the next process is woken if a task is due.
--
-- KEYS[1-37]  the queue
--
-- 1
--
-- flags: allow-oom
-- include: now
-- include: assign
local q = queue_keys(1)
if not q.paused and due_tasks(q, 1).ids[1] then
  ring(q, 1)
  finish(q)
end
return 1
