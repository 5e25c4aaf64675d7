-- name: delete_dead
DELETE FROM dead WHERE queue = ?1 AND id = ?2;

-- name: all
DELETE FROM dead WHERE queue = ?1;
