-- The common case: the token holds the lock, its lease is valid, and there are no waiters.
-- name: quick
UPDATE lock SET token = NULL, released = substr(CAST(?2 || released AS BLOB), 1, ?4), lease_until_us = ?3
WHERE name = ?1 AND token = ?2 AND lease_until_us > ?3 AND waiters = 0;
