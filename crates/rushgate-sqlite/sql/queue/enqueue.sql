-- name: add
INSERT INTO task (queue, id, priority, due_us, revision, first_us, attempts, max_attempts, content_type, payload,
                  at_us, seat, gives_way, deadline_us, held, place)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, iif(?13 IS NULL, ?4, NULL), iif(?13 IS NULL, ?10, NULL), ?11, ?12, ?13,
        iif(?13 IS NULL, NULL, ?10))
ON CONFLICT (queue, id) DO NOTHING;

-- The task to drop for a new one, in a queue that drops its oldest.
-- name: oldest
SELECT arrival, id, priority, key
FROM task INDEXED BY task_oldest
WHERE queue = ?1 AND claim = 0 AND gives_way = 1 ORDER BY first_us, id LIMIT 1;

-- name: present
SELECT arrival, revision, due_us, first_us, claim, replaced, cancelled, priority, key, held IS NOT NULL,
       deadline_us
FROM task WHERE queue = ?1 AND id = ?2;

-- name: replace
UPDATE task SET priority = ?2, due_us = ?3, revision = ?4, attempts = 0, max_attempts = ?5, content_type = ?6,
                payload = ?7, error = NULL, past = NULL, at_us = iif(held IS NULL, ?3, NULL),
                seat = iif(held IS NULL, ifnull(place, seat), NULL), key = NULL, deadline_us = ?8,
                held = iif(held IS NULL, NULL, ?9)
WHERE arrival = ?1;

-- name: move
UPDATE task SET due_us = ?2, revision = ?3, at_us = iif(held IS NULL, ?2, NULL) WHERE arrival = ?1;

-- name: pending_replacement
SELECT revision, due_us, first_us FROM pending_replacement WHERE queue = ?1 AND id = ?2;

-- name: follow
INSERT OR REPLACE INTO pending_replacement
       (queue, id, priority, due_us, revision, first_us, max_attempts, content_type, payload, key, deadline_us)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: advance_newcomer
UPDATE pending_replacement SET due_us = ?3, revision = ?4 WHERE queue = ?1 AND id = ?2;

-- name: mark
UPDATE task SET replaced = 1 WHERE arrival = ?1;
