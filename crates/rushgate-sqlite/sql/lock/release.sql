-- The usual case: held, in time, nobody waits.
-- name: quick
UPDATE lock SET token = NULL, released = ?2, lease_until_us = ?3
WHERE name = ?1 AND token = ?2 AND lease_until_us > ?3 AND waiters = 0;
