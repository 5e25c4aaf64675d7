-- How the run of a task ends.
-- name: remove
DELETE FROM task WHERE arrival = ?1;

-- name: bury
INSERT OR REPLACE INTO dead (queue, id, priority, attempts, max_attempts, content_type, payload, error, died_us)
SELECT queue, id, priority, attempts, max_attempts, content_type, payload, ?2, ?3 FROM task WHERE arrival = ?1;

-- name: newcomer
SELECT due_us FROM newcomer WHERE queue = ?1 AND id = ?2;

-- name: promote
INSERT INTO task (queue, id, priority, due_us, revision, first_us, attempts, max_attempts, content_type, payload)
SELECT queue, id, priority, due_us, revision, first_us, 0, max_attempts, content_type, payload
FROM newcomer WHERE queue = ?1 AND id = ?2;

-- name: forget_newcomer
DELETE FROM newcomer WHERE queue = ?1 AND id = ?2;

-- name: claimed
SELECT arrival, lease_until_us, attempts, max_attempts, replaced, cancelled FROM task
WHERE queue = ?1 AND id = ?2 AND claim = ?3;
