-- Statements shared by the lock methods: the lock's row and its wait queue.
-- name: lock
SELECT fence, token, lease_until_us, released, waiters FROM lock WHERE name = ?1;

-- name: grant
UPDATE lock SET fence = ?2, token = ?3, lease_until_us = ?4, since_us = ?5, host = ?6, pid = ?7, label = ?8
WHERE name = ?1;

-- name: lease
UPDATE lock SET lease_until_us = ?2 WHERE name = ?1;

-- name: clear
UPDATE lock
SET token = NULL, lease_until_us = ?2, released = ifnull(substr(CAST(?3 || released AS BLOB), 1, ?4), x'')
WHERE name = ?1;

-- name: count
UPDATE lock SET waiters = (SELECT count(*) FROM lock_waiter WHERE name = ?1) WHERE name = ?1;

-- name: drop_dead
DELETE FROM lock_waiter WHERE name = ?1 AND wait_until_us <= ?2;

-- name: lapse
UPDATE lock_waiter SET state = 2 WHERE name = ?1 AND token = ?2 AND state = 1;

-- name: first
SELECT ticket, token, lease_us, host, pid, label FROM lock_waiter WHERE name = ?1 AND state = 0
ORDER BY ticket LIMIT 1;

-- name: granted
UPDATE lock_waiter SET state = 1 WHERE name = ?1 AND ticket = ?2;

-- name: place
SELECT ticket, wait_until_us FROM lock_waiter WHERE name = ?1 AND token = ?2;

-- name: ahead
SELECT count(*) FROM lock_waiter WHERE name = ?1 AND state = 0 AND ticket <= ?2 AND wait_until_us > ?3;

-- name: waiting
SELECT count(*) FROM lock_waiter WHERE name = ?1 AND state = 0 AND wait_until_us > ?2;

-- name: leave
DELETE FROM lock_waiter WHERE name = ?1 AND token = ?2;

-- name: tell
INSERT OR REPLACE INTO lock_notification (client, token, kind, at_us) VALUES (?1, ?2, ?3, ?4);

-- name: told
DELETE FROM lock_notification WHERE client = ?1 AND token = ?2;
