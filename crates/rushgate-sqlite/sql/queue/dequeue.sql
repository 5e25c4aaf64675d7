-- name: present
SELECT arrival, revision, claim FROM task WHERE queue = ?1 AND id = ?2;
