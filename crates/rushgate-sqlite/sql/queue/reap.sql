-- What a lease that ran out leads to.
-- name: expired
SELECT arrival, lease_until_us, attempts, max_attempts, replaced, cancelled, id FROM task
WHERE queue = ?1 AND claim > 0 AND lease_until_us <= ?2 ORDER BY lease_until_us, claim;

-- name: earliest
SELECT min(lease_until_us) FROM task WHERE queue = ?1 AND claim > 0;

-- name: wait_again
UPDATE task SET claim = 0, lease_until_us = 0, worker = NULL, due_us = ?2, attempts = ?3, error = ifnull(?4, error)
WHERE arrival = ?1;

-- name: any
SELECT EXISTS (SELECT 1 FROM task WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND claim > 0
               AND lease_until_us <= ?2);
