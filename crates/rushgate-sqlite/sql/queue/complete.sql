-- The common case: the ticket's claim is current and no replacement is pending.
-- name: done
DELETE FROM task WHERE queue = ?1 AND id = ?2 AND claim = ?3 AND replaced = 0 RETURNING priority, key;
