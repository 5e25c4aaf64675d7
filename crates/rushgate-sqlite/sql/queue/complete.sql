-- The usual case: the claim is the ticket's, its lease runs, and nothing came in meanwhile.
-- name: done
DELETE FROM task WHERE queue = ?1 AND id = ?2 AND claim = ?3 AND replaced = 0 RETURNING priority, key;
