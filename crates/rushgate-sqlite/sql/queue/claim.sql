-- The first waiting task of priority `?2` or lower urgency, due or not: which priority to query, and when.
-- name: next
SELECT priority, at_us FROM task WHERE queue = ?1 AND claim = 0 AND at_us IS NOT NULL AND priority >= ?2
ORDER BY priority, at_us, seat LIMIT 1;

-- name: waiting
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload, key, at_us,
       deadline_us FROM task
WHERE queue = ?1 AND claim = 0 AND at_us IS NOT NULL AND priority >= ?2 ORDER BY priority, at_us, seat LIMIT ?3;

-- Like `waiting`, but only due tasks of one priority.
-- name: due
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload, key, at_us,
       deadline_us FROM task
WHERE queue = ?1 AND claim = 0 AND priority = ?2 AND at_us <= ?4 ORDER BY at_us, seat LIMIT ?3;

-- name: lease
UPDATE task SET claim = ?2, lease_until_us = ?3, worker = ?4, attempts = attempts + 1 WHERE arrival = ?1;

-- name: leased
SELECT count(*) FROM (SELECT 1 FROM task WHERE queue = ?1 AND claim > 0 LIMIT ?2);
