-- Tasks that wait for other tasks.
-- name: open
SELECT arrival FROM task WHERE queue = ?1 AND id = ?2;

-- name: is_open
SELECT if_dead FROM wait WHERE arrival = ?1 AND id = '';

-- How and when a retained task ended, and its result.
-- name: finished
SELECT finished_us, how, result_type, result FROM finished
WHERE queue = ?1 AND id = ?2 AND finished_us > ?3;

-- name: dead
SELECT died_us, error FROM dead WHERE queue = ?1 AND id = ?2;

-- name: add
INSERT OR IGNORE INTO wait (arrival, id, queue, if_dead) VALUES (?1, ?2, ?3, ?4);

-- name: add_over
INSERT OR IGNORE INTO wait (arrival, id, queue, if_dead, how, over_us, result_type, result, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: forget
DELETE FROM wait WHERE arrival = ?1;

-- name: forget_one
DELETE FROM wait WHERE arrival = ?1 AND id = ?2;

-- name: is_waited_for
SELECT EXISTS (SELECT 1 FROM wait WHERE queue = ?1 AND how IS NULL AND id = ?2);

-- name: ended
INSERT OR REPLACE INTO ended (queue, at_us, id, how, result_type, result, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: first_ended
SELECT at_us, id, how, result_type, result, error FROM ended WHERE queue = ?1 ORDER BY at_us, id LIMIT 1;

-- name: told
DELETE FROM ended WHERE queue = ?1 AND at_us = ?2 AND id = ?3;

-- Tasks that wait for the given one, with policies from `?3` on.
-- name: waiting
SELECT arrival, if_dead FROM wait
WHERE queue = ?1 AND how IS NULL AND id = ?2 AND if_dead >= ?3 ORDER BY if_dead, arrival LIMIT ?4;

-- name: over
UPDATE wait SET how = ?3, over_us = ?4, result_type = ?5, result = ?6, error = ?7 WHERE arrival = ?1 AND id = ?2;

-- name: is_held
SELECT EXISTS (SELECT 1 FROM wait WHERE arrival = ?1 AND how IS NULL);

-- name: held
SELECT id, priority, held, due_us FROM task WHERE arrival = ?1;

-- name: release
UPDATE task SET at_us = due_us, seat = place, held = NULL WHERE arrival = ?1;

-- name: left
SELECT count(*) FROM wait WHERE arrival = ?1 AND how IS NULL AND id <> '';

-- name: deleted
SELECT DISTINCT wait.id FROM wait JOIN dead ON dead.queue = wait.queue AND dead.id = wait.id
WHERE wait.queue = ?1 AND how IS NULL
  AND NOT EXISTS (SELECT 1 FROM task WHERE task.queue = wait.queue AND task.id = wait.id);

-- name: is_deleted
SELECT EXISTS (SELECT 1 FROM wait WHERE queue = ?1 AND how IS NULL AND id = ?2)
   AND EXISTS (SELECT 1 FROM dead WHERE queue = ?1 AND id = ?2)
   AND NOT EXISTS (SELECT 1 FROM task WHERE queue = ?1 AND id = ?2);

-- name: counts
SELECT arrival,
       (SELECT count(*) FROM wait WHERE wait.arrival = task.arrival AND how IS NULL AND wait.id <> ''),
       (SELECT count(*) FROM wait WHERE wait.arrival = task.arrival AND how IS NOT NULL),
       (SELECT max(wait.id = '') FROM wait WHERE wait.arrival = task.arrival AND how IS NULL),
       (SELECT max(if_dead) FROM wait WHERE wait.arrival = task.arrival AND how IS NULL)
FROM task WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2;

-- The first unfinished tasks, with an error for those that are dead and not live again.
-- name: first
SELECT id, (SELECT error FROM dead WHERE dead.queue = wait.queue AND dead.id = wait.id
            AND NOT EXISTS (SELECT 1 FROM task WHERE task.queue = wait.queue AND task.id = wait.id))
FROM wait WHERE arrival = ?1 AND how IS NULL AND id <> '' ORDER BY id LIMIT ?2;

-- The live tasks that still wait for a task.
-- name: dependents
SELECT task.id FROM wait JOIN task ON task.arrival = wait.arrival
WHERE wait.queue = (SELECT id FROM queue WHERE name = ?1) AND wait.how IS NULL AND wait.id = ?2
ORDER BY wait.if_dead, wait.arrival LIMIT ?3;

-- name: page
SELECT wait.id, how, over_us, result_type, result, wait.error
FROM wait JOIN task ON task.arrival = wait.arrival
WHERE task.queue = (SELECT id FROM queue WHERE name = ?1) AND task.id = ?2 AND wait.id > ?3 AND how IS NOT NULL
ORDER BY wait.id LIMIT ?4;
