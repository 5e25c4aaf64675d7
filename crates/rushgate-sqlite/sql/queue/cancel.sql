-- name: mark
UPDATE task SET cancelled = 1, replaced = 0 WHERE arrival = ?1;
