-- name: load
SELECT id, revision, recurrence, content_type, payload, priority, max_attempts, next_us, previous_us, paused
FROM schedule WHERE queue = ?1 AND id = ?2;

-- name: count
SELECT count(*) FROM schedule WHERE queue = ?1;

-- name: store
INSERT OR REPLACE INTO schedule
       (queue, id, revision, recurrence, content_type, payload, priority, max_attempts, next_us, previous_us, paused)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: remove
DELETE FROM schedule WHERE queue = ?1 AND id = ?2;

-- name: page
SELECT id, revision, recurrence, content_type, payload, priority, max_attempts, next_us, previous_us, paused
FROM schedule WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id > ?2 ORDER BY id LIMIT ?3;

-- Schedules that are not paused, by next time.
-- name: due
SELECT id, revision, recurrence, content_type, payload, priority, max_attempts, next_us, previous_us, paused
FROM schedule WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND paused = 0 AND next_us IS NOT NULL
ORDER BY next_us, id LIMIT ?2;

-- name: fired
UPDATE schedule SET revision = ?3, next_us = ?4, previous_us = ?5 WHERE queue = ?1 AND id = ?2;
