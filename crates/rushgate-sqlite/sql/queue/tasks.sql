-- name: one
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload,
       claim, lease_until_us, worker, replaced, cancelled, error
FROM task WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2;

-- `?3`: 0 all, 1 scheduled, 2 ready, 3 leased.
-- name: many
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload,
       claim, lease_until_us, worker, replaced, cancelled, error
FROM task
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id > ?2
  AND (?3 = 0 OR (?3 = 1 AND claim = 0 AND due_us > ?4) OR (?3 = 2 AND claim = 0 AND due_us <= ?4)
       OR (?3 = 3 AND claim > 0))
ORDER BY id LIMIT ?5;
