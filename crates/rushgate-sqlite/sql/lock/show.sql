-- name: holder
SELECT token, fence, host, pid, label, since_us, lease_until_us FROM lock
WHERE name = ?1 AND token IS NOT NULL AND lease_until_us > ?2;

-- A waiter that was granted the lock is listed as the holder. One that let the claim window pass is listed as
-- waiting.
-- name: waiters
SELECT w.token, w.host, w.pid, w.label, w.since_us, w.wait_until_us FROM lock_waiter AS w JOIN lock AS l USING (name)
WHERE w.name = ?1 AND w.wait_until_us > ?2 AND NOT (l.token = w.token AND l.lease_until_us > ?2)
ORDER BY w.ticket;
