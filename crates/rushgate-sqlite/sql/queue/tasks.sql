-- name: one
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload,
       ifnull(key, nullif(held, '')),
       claim, lease_until_us, worker, replaced, cancelled, error, at_us,
       past, progress_percent, progress_note, deadline_us, held IS NOT NULL
FROM task WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2;

-- `?3`: 0 all, 1 scheduled, 2 ready, 3 leased, 4 blocked.
-- name: many
SELECT arrival, id, priority, due_us, revision, attempts, max_attempts, content_type, payload,
       ifnull(key, nullif(held, '')),
       claim, lease_until_us, worker, replaced, cancelled, error, at_us,
       past, progress_percent, progress_note, deadline_us, held IS NOT NULL
FROM task
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id > ?2
  AND (?3 = 0 OR (?3 = 1 AND claim = 0 AND at_us > ?4) OR (?3 = 2 AND claim = 0 AND at_us <= ?4)
       OR (?3 = 3 AND claim > 0) OR (?3 = 4 AND claim = 0 AND at_us IS NULL))
ORDER BY id LIMIT ?5;
