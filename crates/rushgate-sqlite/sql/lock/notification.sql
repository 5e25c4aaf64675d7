-- name: pending
SELECT token, kind FROM lock_notification WHERE client = ?1;
