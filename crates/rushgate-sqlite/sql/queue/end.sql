-- Ends the run of a task.
-- name: remove
DELETE FROM task WHERE arrival = ?1;

-- name: delete_dead
INSERT OR REPLACE INTO dead (queue, id, priority, attempts, max_attempts, content_type, payload, error, died_us, key,
                             past)
SELECT queue, id, priority, attempts, max_attempts, content_type, payload, ?2, ?3, ifnull(key, nullif(held, '')), ?4
FROM task WHERE arrival = ?1;

-- A waiting task whose deadline passed.
-- name: delete_late
INSERT OR REPLACE INTO dead (queue, id, priority, attempts, max_attempts, content_type, payload, error, died_us, key,
                             past)
SELECT queue, id, priority, attempts, max_attempts, content_type, payload, ?2, deadline_us, ifnull(key, nullif(held, '')), past
FROM task
WHERE arrival = ?1;

-- name: pending_replacement
SELECT due_us, priority, key, deadline_us FROM pending_replacement WHERE queue = ?1 AND id = ?2;

-- name: promote
INSERT INTO task (queue, id, priority, due_us, revision, first_us, attempts, max_attempts, content_type, payload,
                  at_us, seat, gives_way, deadline_us)
SELECT queue, id, priority, due_us, revision, first_us, 0, max_attempts, content_type, payload, due_us, ?3, ?4,
       deadline_us
FROM pending_replacement WHERE queue = ?1 AND id = ?2;

-- name: forget_newcomer
DELETE FROM pending_replacement WHERE queue = ?1 AND id = ?2;

-- name: claimed
SELECT arrival, lease_until_us, attempts, max_attempts, replaced, cancelled, priority, key, claim, worker, past, deadline_us, due_us FROM task
WHERE queue = ?1 AND id = ?2 AND claim = ?3;
