-- Ranges of `task_due`, one per priority: without the priority, each count would compare all times of the index.
-- name: counts
WITH of(priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT
    (SELECT sum(n) FROM (SELECT (SELECT count(*) FROM task INDEXED BY task_due WHERE queue = q.id AND claim = 0
        AND at_us IS NOT NULL AND task.priority = of.priority AND at_us <= ?2) AS n FROM of)),
    (SELECT sum(n) FROM (SELECT (SELECT count(*) FROM task INDEXED BY task_due WHERE queue = q.id AND claim = 0
        AND at_us IS NOT NULL AND task.priority = of.priority AND at_us > ?2) AS n FROM of)),
    (SELECT count(*) FROM task WHERE queue = q.id AND claim > 0),
    (SELECT count(*) FROM dead WHERE queue = q.id),
    (SELECT min(at) FROM (SELECT (SELECT min(at_us) FROM task INDEXED BY task_due WHERE queue = q.id AND claim = 0
        AND at_us IS NOT NULL AND task.priority = of.priority AND at_us <= ?2) AS at FROM of)),
    len,
    paused, bound, concurrency, rate_n, rate_us, key_concurrency, key_rate_n, key_rate_us, key_fifo, claim,
    keep_us, keep_n, overflow,
    kept - (SELECT count(*) FROM finished WHERE queue = q.id AND finished_us <= ?2 - q.keep_us),
    dropped, events
FROM queue AS q WHERE name = ?1;

-- The claim time that is `?2` claims before the latest one.
-- name: start
SELECT at_us FROM start WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND per_key = 0 AND key = ''
ORDER BY at_us DESC LIMIT 1 OFFSET ?2;
