-- name: forget
DELETE FROM worker WHERE queue = ?1 AND lease_until_us <= ?2;

-- name: count
SELECT count(*) FROM worker WHERE queue = ?1;

-- name: load
SELECT id, name, version, concurrency, running, since_us, seen_us, lease_until_us, mode
FROM worker WHERE queue = ?1 AND id = ?2;

-- name: announce
INSERT INTO worker (queue, id, name, version, concurrency, running, since_us, seen_us, lease_until_us, mode)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, 0)
ON CONFLICT DO UPDATE SET name = ?3, version = ?4, concurrency = ?5, running = ?6, seen_us = ?7, lease_until_us = ?8;

-- name: remove
DELETE FROM worker WHERE queue = ?1 AND id = ?2;

-- name: set
UPDATE worker SET mode = ?3 WHERE queue = ?1 AND id = ?2 AND lease_until_us > ?4;

-- name: page
SELECT id, name, version, concurrency, running, since_us, seen_us, lease_until_us, mode
FROM worker WHERE queue = ?1 AND id > ?2 AND lease_until_us > ?3 ORDER BY id LIMIT ?4;
