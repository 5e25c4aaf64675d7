-- name: one
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload,
       ifnull(key, nullif(held, '')),
       claim, lease_until_us, worker, replaced, cancelled, error, at_us,
       past, progress_percent, progress_note, deadline_us, held IS NOT NULL
FROM task WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2;

-- The next tasks by ID, between two IDs.
-- name: many
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload,
       ifnull(key, nullif(held, '')),
       claim, lease_until_us, worker, replaced, cancelled, error, at_us,
       past, progress_percent, progress_note, deadline_us, held IS NOT NULL
FROM task
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id >= ?2 AND id <= ?3
ORDER BY id LIMIT ?4;

-- The next IDs, and whether the task is in a state. `?5`: 1 scheduled, 2 ready, 3 leased, 4 blocked.
-- name: next
SELECT id,
       CASE ?5 WHEN 1 THEN claim = 0 AND at_us > ?6 WHEN 2 THEN claim = 0 AND at_us <= ?6 WHEN 3 THEN claim > 0
               ELSE claim = 0 AND at_us IS NULL END IS TRUE
FROM task
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id >= ?2 AND id <= ?3
ORDER BY id LIMIT ?4;

-- The IDs of tasks that may be in one state, in any order, at most `?3` of them. Each index makes this cheap, even if they
-- are few of a million. The second column tells whether the task is in that state.
-- name: few_leased
SELECT id, 1 FROM task INDEXED BY task_lease
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND claim > 0 LIMIT ?3;

-- name: few_scheduled
WITH of(priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT id, 1 FROM of CROSS JOIN task INDEXED BY task_due
    ON queue = (SELECT id FROM queue WHERE name = ?1) AND claim = 0 AND at_us IS NOT NULL
    AND task.priority = of.priority AND at_us > ?2
LIMIT ?3;

-- name: few_ready
WITH of(priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT id, 1 FROM of CROSS JOIN task INDEXED BY task_due
    ON queue = (SELECT id FROM queue WHERE name = ?1) AND claim = 0 AND at_us IS NOT NULL
    AND task.priority = of.priority AND at_us <= ?2
LIMIT ?3;

-- name: few_blocked
SELECT * FROM (SELECT id, at_us IS NULL FROM task INDEXED BY task_line
    WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND claim = 0 AND key IS NOT NULL LIMIT ?3)
UNION ALL
SELECT * FROM (SELECT id, 1 FROM task INDEXED BY task_held
    WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND held IS NOT NULL LIMIT ?3);
