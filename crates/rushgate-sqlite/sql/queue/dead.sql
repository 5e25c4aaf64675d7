-- name: page
SELECT id, content_type, payload, priority, attempts, max_attempts, error, died_us, key, past FROM dead
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id > ?2 ORDER BY id LIMIT ?3;

-- name: one
SELECT id, content_type, payload, priority, attempts, max_attempts, error, died_us, key, past FROM dead
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2;

-- name: ids
SELECT id FROM dead WHERE queue = ?1 ORDER BY id;
