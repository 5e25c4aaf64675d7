-- The snapshot of a sale for the audit: every row of every table, including rows that no method would read.
-- name: holds
SELECT id, buyer, state, deadline_us, seq, generation, lines, units FROM hold WHERE sale = ?1 ORDER BY seq;

-- name: owned
SELECT sku, unit, reservation FROM owned_unit WHERE sale = ?1 ORDER BY sku, unit;

-- name: buyers
SELECT sku, buyer, units FROM buyer WHERE sale = ?1 AND units <> 0;

-- Read through the index, so that a hold missing from it is detected.
-- name: deadlines
SELECT deadline_us, seq, id FROM hold INDEXED BY hold_deadline WHERE sale = ?1 AND state = 0;

-- name: free
SELECT sku, unit FROM free_unit WHERE sale = ?1 ORDER BY sku, unit;

-- name: withdrawn
SELECT sku, first, last FROM withdrawn_range WHERE sale = ?1 ORDER BY sku, last;

-- Orders that an order worker will get: due by ?2, or leased until ?3 at most. A pending replacement is due when its
-- leased task ends.
-- name: pending
SELECT content_type, payload FROM task
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND replaced = 0 AND priority BETWEEN 0 AND 9
  AND cancelled = 0 AND deadline_us IS NULL
  AND iif(claim > 0, lease_until_us <= ?3, at_us <= ?2)
UNION ALL
SELECT newcomer.content_type, newcomer.payload FROM newcomer
JOIN task ON task.queue = newcomer.queue AND task.id = newcomer.id AND task.claim > 0 AND task.lease_until_us <= ?3
WHERE newcomer.queue = (SELECT id FROM queue WHERE name = ?1);

-- name: reserved
SELECT reserved = 1 FROM queue WHERE name = ?1;
