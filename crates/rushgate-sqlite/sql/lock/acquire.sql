-- Grants a free lock that has no waiters, in one statement: the common case.
-- name: take_free
INSERT INTO lock (name, fence, token, lease_until_us, since_us, host, pid, label)
VALUES (?1, max(?2, (SELECT fence + 1 FROM lock_floor)), ?3, ?4, ?2, ?5, ?6, ?7)
ON CONFLICT (name) DO UPDATE
SET fence = max(lock.fence + 1, ?2), token = ?3, lease_until_us = ?4, since_us = ?2, host = ?5, pid = ?6, label = ?7
WHERE lock.waiters = 0 AND (lock.token IS NULL OR lock.lease_until_us <= ?2)
RETURNING fence;

-- name: join
INSERT INTO lock_waiter (name, ticket, token, lease_us, wait_until_us, since_us, host, pid, label)
SELECT ?1, max(?2, ifnull((SELECT max(ticket) + 1 FROM lock_waiter WHERE name = ?1), 0)), ?3, ?4, ?5, ?2, ?6, ?7, ?8
RETURNING ticket;

-- name: ask_again
UPDATE lock_waiter SET state = 0 WHERE name = ?1 AND ticket = ?2;
