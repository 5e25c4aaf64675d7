-- name: names
SELECT name FROM lock
WHERE name > ?1 AND (
    (token IS NOT NULL AND lease_until_us > ?2)
    OR (waiters > 0 AND EXISTS (SELECT 1 FROM lock_waiter AS w WHERE w.name = lock.name AND w.wait_until_us > ?2)))
ORDER BY name LIMIT ?3;
