-- A queue's counters, read and written once per group of calls.
-- name: load
SELECT id, paused, bound, len, revision, claim,
       (SELECT min(lease_until_us) FROM task WHERE task.queue = queue.id AND claim > 0), places,
       concurrency, rate_n, rate_us, key_concurrency, key_rate_n, key_rate_us, key_fifo,
       keep_us, keep_n, overflow, kept, dropped,
       (SELECT min(deadline_us) FROM task
        WHERE task.queue = queue.id AND claim = 0 AND deadline_us IS NOT NULL),
       (SELECT max(until_us) FROM unique_id WHERE unique_id.queue = queue.id),
       EXISTS (SELECT 1 FROM wait WHERE wait.queue = queue.id),
       EXISTS (SELECT 1 FROM ended WHERE ended.queue = queue.id),
       events, event_last
FROM queue WHERE name = ?1;

-- name: create
INSERT INTO queue (name) VALUES (?1);

-- name: store
UPDATE queue SET paused = ?2, len = ?3, revision = ?4, claim = ?5, places = ?6, dropped = ?7 WHERE id = ?1;

-- name: limit
UPDATE queue SET bound = ?2, concurrency = ?3, rate_n = ?4, rate_us = ?5, key_concurrency = ?6, key_rate_n = ?7,
                 key_rate_us = ?8, key_fifo = ?9, keep_us = ?10, keep_n = ?11, overflow = ?12
WHERE id = ?1;

-- Whether waiting tasks may be dropped for new ones.
-- name: give_way
UPDATE task SET gives_way = ?2 WHERE queue = ?1 AND gives_way <> ?2;

-- name: names
SELECT name FROM queue WHERE name > ?1
UNION SELECT queue FROM worker WHERE queue > ?1 AND lease_until_us > ?3
ORDER BY 1 LIMIT ?2;
