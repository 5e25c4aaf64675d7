-- Events of a queue's tasks.
-- name: add
INSERT INTO event_of_task (queue, seq, at_us, what, id, attempt, due_us, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: forget
DELETE FROM event_of_task WHERE queue = ?1 AND seq <= ?2;

-- name: count
UPDATE queue SET event_last = ?2 WHERE id = ?1;

-- name: limit
UPDATE queue SET events = ?2 WHERE id = ?1;

-- name: kept
SELECT ifnull((SELECT min(seq) FROM event_of_task WHERE queue = q.id), event_last + 1), event_last
FROM queue AS q WHERE name = ?1;

-- name: page
SELECT seq, at_us, what, id, attempt, due_us, text FROM event_of_task
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: last
SELECT event_last FROM queue WHERE name = ?1;
