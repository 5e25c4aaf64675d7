-- The most urgent waiting task from a priority on, due or not: tells which priority to look into, and when.
-- name: next
SELECT priority, due_us FROM task WHERE queue = ?1 AND claim = 0 AND priority >= ?2
ORDER BY priority, due_us, arrival LIMIT 1;

-- name: waiting
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload FROM task
WHERE queue = ?1 AND claim = 0 AND priority >= ?2 ORDER BY priority, due_us, arrival LIMIT ?3;

-- name: lease
UPDATE task SET claim = ?2, lease_until_us = ?3, worker = ?4, attempts = attempts + 1 WHERE arrival = ?1;
