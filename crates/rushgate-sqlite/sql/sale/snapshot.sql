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
