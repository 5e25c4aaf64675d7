-- The snapshot of a sale for the audit: every row of every table, including rows that no method would read.
-- name: holds
SELECT id, buyer, state, deadline_us, seq, generation, lines, units FROM hold WHERE sale = ?1 ORDER BY seq;

-- name: owned
SELECT sku, unit, reservation FROM owned_unit WHERE sale = ?1 ORDER BY sku, unit;

-- name: buyers
SELECT sku, buyer, units FROM buyer WHERE sale = ?1 AND units <> 0;

-- Read through the index, so that a hold missing from it is detected.
-- name: deadlines
SELECT deadline_us, seq, id FROM hold INDEXED BY hold_deadline WHERE sale = ?1 AND state = 0;

-- name: free
SELECT sku, unit FROM free_unit WHERE sale = ?1 ORDER BY sku, unit;

-- name: withdrawn
SELECT sku, first, last FROM withdrawn_range WHERE sale = ?1 ORDER BY sku, last;

-- name: queue
SELECT id, len, revision, claim, places, reserved, paused FROM queue WHERE name = ?1;

-- Read from the table itself, so that a task missing from an index is detected.
-- name: tasks
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload, claim, lease_until_us,
       replaced, cancelled,
       (worker IS NOT NULL) + (progress_percent IS NOT NULL) + (progress_note IS NOT NULL) + (replaced <> 0),
       worker IS NOT NULL,
       (key IS NOT NULL) + (held IS NOT NULL) + (deadline_us IS NOT NULL) + (asked_us IS NOT NULL)
       + (line_us IS NOT NULL) + (place IS NOT NULL) + (gives_way <> 0),
       key IS NOT NULL OR held IS NOT NULL, at_us, seat, past
FROM task NOT INDEXED WHERE queue = ?1;

-- name: newcomers
SELECT 0, id, priority, due_us, revision, 0, max_attempts, content_type, payload, 0, 0, 0, 0, 0, 0,
       (key IS NOT NULL) + (deadline_us IS NOT NULL), 1, NULL, NULL, NULL
FROM newcomer WHERE queue = ?1;

-- name: waiting
SELECT arrival FROM task INDEXED BY task_due WHERE queue = ?1 AND claim = 0 AND at_us IS NOT NULL;

-- name: leased
SELECT arrival FROM task INDEXED BY task_lease WHERE queue = ?1 AND claim > 0;
