-- Each priority is looked into by itself: within one, the tasks stand by when they may be given out, so that a look costs a few steps
-- however many wait.

-- How many tasks of a queue are due, up to 64 of a priority: as many listeners are worth waking.
-- name: due
SELECT ifnull(sum((SELECT count(*) FROM (
    SELECT 1 FROM task AS t
    WHERE t.queue = q.id AND t.claim = 0 AND t.priority = p.column1 AND t.at_us <= ?2 LIMIT 64))), 0)
FROM queue AS q CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS p
WHERE q.name = ?1 AND q.paused = 0;

-- When the first task that waits will be due.
-- name: next
SELECT min((SELECT min(t.at_us) FROM task AS t WHERE t.queue = q.id AND t.claim = 0 AND t.priority = p.column1
            AND t.at_us IS NOT NULL))
FROM queue AS q CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS p
WHERE q.name = ?1 AND q.paused = 0;
