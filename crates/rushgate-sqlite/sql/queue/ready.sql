-- How many tasks of a queue are due, up to 64: as many listeners are worth waking.
-- name: due
SELECT count(*) FROM (
    SELECT 1 FROM queue AS q CROSS JOIN task AS t
    WHERE q.name = ?1 AND q.paused = 0 AND t.queue = q.id AND t.claim = 0 AND t.due_us <= ?2 LIMIT 64);
