-- name: pending
SELECT token, kind FROM lock_notice WHERE client = ?1;
