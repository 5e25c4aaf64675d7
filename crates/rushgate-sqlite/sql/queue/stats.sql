-- name: counts
SELECT
    (SELECT count(*) FROM task WHERE queue = q.id AND claim = 0 AND due_us <= ?2),
    (SELECT count(*) FROM task WHERE queue = q.id AND claim = 0 AND due_us > ?2),
    (SELECT count(*) FROM task WHERE queue = q.id AND claim > 0),
    (SELECT count(*) FROM dead WHERE queue = q.id),
    (SELECT min(due_us) FROM task WHERE queue = q.id AND claim = 0 AND due_us <= ?2),
    paused, bound
FROM queue AS q WHERE name = ?1;
