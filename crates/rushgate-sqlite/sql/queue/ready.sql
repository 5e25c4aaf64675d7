-- Each priority is queried separately: within one, the index orders tasks by the time they become available. The cost
-- does not depend on the number of waiting tasks.

-- Number of due tasks of a queue, up to 64 per priority: at most that many listeners are woken.
-- name: due
SELECT ifnull(sum((SELECT count(*) FROM (
    SELECT 1 FROM task AS t
    WHERE t.queue = q.id AND t.claim = 0 AND t.priority = p.column1 AND t.at_us <= ?2 LIMIT 64))), 0)
FROM queue AS q CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS p
WHERE q.name = ?1 AND q.paused = 0;

-- When the first waiting task becomes available.
-- name: next
SELECT min((SELECT min(t.at_us) FROM task AS t WHERE t.queue = q.id AND t.claim = 0 AND t.priority = p.column1
            AND t.at_us IS NOT NULL))
FROM queue AS q CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS p
WHERE q.name = ?1 AND q.paused = 0;
