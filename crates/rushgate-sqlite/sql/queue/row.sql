-- A queue's counters, read once and written once a group.
-- name: load
SELECT id, paused, bound, len, revision, claim,
       (SELECT min(lease_until_us) FROM task WHERE task.queue = queue.id AND claim > 0)
FROM queue WHERE name = ?1;

-- name: create
INSERT INTO queue (name) VALUES (?1) RETURNING id;

-- name: store
UPDATE queue SET paused = ?2, bound = ?3, len = ?4, revision = ?5, claim = ?6 WHERE id = ?1;

-- name: all
SELECT name FROM queue ORDER BY name;
