-- Retained tasks.
-- name: keep
INSERT INTO finished
       (queue, id, finished_us, how, priority, due_us, revision, attempts, max_attempts, content_type, payload, key, claim,
        worker, error, past, result_type, result, deadline_us)
SELECT queue, id, ?2, ?3, priority, due_us, revision, attempts, max_attempts, content_type, payload,
       ifnull(key, nullif(held, '')), claim,
       worker, error, past, ?4, ?5, deadline_us
FROM task WHERE arrival = ?1;

-- Deletes up to `?3` tasks that exceed the maximum age.
-- name: forget_old
DELETE FROM finished WHERE no IN (
    SELECT no FROM finished WHERE queue = ?1 AND finished_us <= ?2 ORDER BY finished_us, id LIMIT ?3);

-- Deletes the `?2` oldest tasks.
-- name: forget_first
DELETE FROM finished WHERE no IN (
    SELECT no FROM finished WHERE queue = ?1 ORDER BY finished_us, id LIMIT ?2);

-- name: forget_one
DELETE FROM finished WHERE queue = ?1 AND id = ?2;

-- name: forget_all
DELETE FROM finished WHERE queue = ?1;

-- name: one
SELECT no, id, priority, due_us, revision, attempts, max_attempts, content_type, payload, key,
       claim, worker, error, past, finished_us, how, result_type, result, deadline_us
FROM finished JOIN (SELECT id AS of, keep_us FROM queue WHERE name = ?1) ON queue = of
WHERE id = ?2 AND finished_us + keep_us > ?3;

-- The next tasks by ID, between two IDs. The last column tells whether the retention still covers the task.
-- name: many
SELECT no, id, priority, due_us, revision, attempts, max_attempts, content_type, payload, key,
       claim, worker, error, past, finished_us, how, result_type, result, deadline_us,
       (finished_us + keep_us > ?5) IS TRUE
FROM finished JOIN (SELECT id AS of, keep_us FROM queue WHERE name = ?1) ON queue = of
WHERE id >= ?2 AND id <= ?3
ORDER BY id LIMIT ?4;

-- Whether a task with this ID is live, in a queue that publishes the end of its tasks.
-- name: awaited
SELECT EXISTS (SELECT 1 FROM task JOIN (SELECT id AS of, keep_us FROM queue WHERE name = ?1) ON queue = of
               WHERE id = ?2 AND keep_us IS NOT NULL);

-- Stores the number of retained tasks.
-- name: count
UPDATE queue SET kept = ?2 WHERE id = ?1;
