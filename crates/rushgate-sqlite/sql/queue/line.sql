-- Moves a task into its key group. It has no place in the queue until it is the first of its group.
-- name: stand
UPDATE task SET key = ?2, asked_us = ifnull(?3, asked_us), line_us = ?4, place = ifnull(place, seat), at_us = NULL, seat = NULL
WHERE arrival = ?1;

-- name: asked
SELECT asked_us FROM task WHERE arrival = ?1;

-- name: first
SELECT arrival, due_us, at_us, seat FROM task
WHERE queue = ?1 AND key = ?2 AND priority = ?3 AND claim = 0 ORDER BY line_us, place LIMIT 1;

-- name: line
SELECT turn_us, place, first FROM line WHERE queue = ?1 AND key = ?2 AND priority = ?3;

-- name: store
INSERT OR REPLACE INTO line (queue, key, priority, turn_us, place, first) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: forget
DELETE FROM line WHERE queue = ?1 AND key = ?2 AND priority = ?3;

-- name: unseat
UPDATE task SET at_us = NULL, seat = NULL WHERE arrival = ?1 AND queue = ?2 AND key = ?3 AND priority = ?4 AND seat = ?5;

-- name: seat
UPDATE task SET at_us = ?2, seat = ?3 WHERE arrival = ?1;

-- name: leave
UPDATE task SET at_us = NULL, seat = NULL WHERE arrival = ?1;

-- name: turn
UPDATE line SET turn_us = ?4, place = ?5, first = NULL WHERE queue = ?1 AND key = ?2 AND priority = ?3;

-- Moves the group to the place of the task that was returned to it, unless the group is already ahead of that.
-- name: return_turn
INSERT INTO line (queue, key, priority, turn_us, place)
SELECT queue, key, priority, due_us, place FROM task WHERE arrival = ?1
ON CONFLICT DO UPDATE SET turn_us = excluded.turn_us, place = excluded.place
WHERE (excluded.turn_us, excluded.place) < (turn_us, place);

-- name: unseat_first
UPDATE task SET at_us = NULL, seat = NULL
WHERE arrival = (SELECT first FROM line WHERE queue = ?1 AND key = ?2 AND priority = ?3)
  AND queue = ?1 AND key = ?2 AND priority = ?3 AND claim = 0;

-- name: of_key
SELECT priority FROM line WHERE queue = ?1 AND key = ?2;

-- name: keys
SELECT DISTINCT key FROM line WHERE queue = ?1;

-- name: running
SELECT count(*) FROM (SELECT 1 FROM task WHERE queue = ?1 AND key = ?2 AND claim > 0 LIMIT ?3);

-- name: started
INSERT INTO start (queue, per_key, key, at_us) VALUES (?1, ?2, ?3, ?4);

-- name: forget_starts
DELETE FROM start WHERE queue = ?1 AND per_key = ?2 AND at_us <= ?3;

-- name: nth_start
SELECT at_us FROM start WHERE queue = ?1 AND per_key = ?2 AND key = ?3 ORDER BY at_us DESC LIMIT 1 OFFSET ?4;

-- name: count_starts
SELECT count(*) FROM start WHERE queue = ?1 AND per_key = ?2 AND key = ?3 AND at_us > ?4;
