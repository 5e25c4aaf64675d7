-- name: stretch
SELECT max(name) FROM (SELECT name FROM lock WHERE name > ?1 ORDER BY name LIMIT ?2);

-- name: drop_dead
DELETE FROM lock_waiter WHERE name > ?1 AND name <= ?2 AND wait_until_us < ?3;

-- name: recount
UPDATE lock SET waiters = (SELECT count(*) FROM lock_waiter AS w WHERE w.name = lock.name)
WHERE name > ?1 AND name <= ?2 AND waiters > 0;

-- name: raise_floor
UPDATE lock_floor SET fence = max(fence, ifnull((
    SELECT max(fence) FROM lock WHERE name > ?1 AND name <= ?2 AND waiters = 0 AND lease_until_us < ?3), 0));

-- name: forget
DELETE FROM lock WHERE name > ?1 AND name <= ?2 AND waiters = 0 AND lease_until_us < ?3;

-- name: old_releases
DELETE FROM lock_released_with WHERE at_us < ?1;

-- name: old_news
DELETE FROM lock_notification WHERE at_us < ?1;
