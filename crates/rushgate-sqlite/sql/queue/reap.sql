-- Expired leases.
-- name: expired
SELECT arrival, lease_until_us, attempts, max_attempts, replaced, cancelled, priority, key, claim, worker, past,
       deadline_us, due_us, id FROM task
WHERE queue = ?1 AND claim > 0 AND lease_until_us <= ?2 ORDER BY lease_until_us, claim;

-- name: earliest
SELECT min(lease_until_us) FROM task WHERE queue = ?1 AND claim > 0;

-- Waiting tasks whose deadline has passed.
-- name: late
SELECT arrival, id, priority, key, deadline_us, attempts FROM task INDEXED BY task_deadline
WHERE queue = ?1 AND claim = 0 AND deadline_us <= ?2 ORDER BY deadline_us, id;

-- name: first_deadline
SELECT min(deadline_us) FROM task WHERE queue = ?1 AND claim = 0 AND deadline_us IS NOT NULL;

-- A NULL due time keeps the task's place. A task with a key gets its place from its key group.
-- name: wait_again
UPDATE task SET claim = 0, lease_until_us = 0, worker = NULL, due_us = ifnull(?2, due_us), attempts = ?3,
                error = ifnull(?4, error), at_us = iif(key IS NULL, ifnull(?2, due_us), NULL), past = ?5,
                progress_percent = NULL, progress_note = NULL
WHERE arrival = ?1;

-- name: any
SELECT EXISTS (SELECT 1 FROM task WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND claim > 0
               AND lease_until_us <= ?2)
    OR EXISTS (SELECT 1 FROM task WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND claim = 0
               AND deadline_us <= ?2)
    OR EXISTS (SELECT 1 FROM ended WHERE queue = (SELECT id FROM queue WHERE name = ?1));
