-- name: add
INSERT INTO task (queue, id, priority, due_us, revision, first_us, attempts, max_attempts, content_type, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9)
ON CONFLICT (queue, id) DO NOTHING;

-- name: present
SELECT arrival, revision, due_us, first_us, claim, replaced, cancelled FROM task WHERE queue = ?1 AND id = ?2;

-- name: replace
UPDATE task SET priority = ?2, due_us = ?3, revision = ?4, attempts = 0, max_attempts = ?5, content_type = ?6,
                payload = ?7, error = NULL
WHERE arrival = ?1;

-- name: advance
UPDATE task SET due_us = ?2, revision = ?3 WHERE arrival = ?1;

-- name: newcomer
SELECT revision, due_us, first_us FROM newcomer WHERE queue = ?1 AND id = ?2;

-- name: follow
INSERT OR REPLACE INTO newcomer (queue, id, priority, due_us, revision, first_us, max_attempts, content_type, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: advance_newcomer
UPDATE newcomer SET due_us = ?3, revision = ?4 WHERE queue = ?1 AND id = ?2;

-- name: mark
UPDATE task SET replaced = 1 WHERE arrival = ?1;
