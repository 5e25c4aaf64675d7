-- Released units.
-- name: take_lowest
DELETE FROM free_unit
WHERE sale = ?1 AND sku = ?2 AND unit IN (SELECT unit FROM free_unit WHERE sale = ?1 AND sku = ?2 ORDER BY unit LIMIT ?3)
RETURNING unit;

-- name: take_highest
DELETE FROM free_unit
WHERE sale = ?1 AND sku = ?2 AND unit IN (SELECT unit FROM free_unit WHERE sale = ?1 AND sku = ?2 ORDER BY unit DESC LIMIT ?3)
RETURNING unit;

-- name: take
DELETE FROM free_unit WHERE sale = ?1 AND sku = ?2 AND unit = ?3;

-- name: lowest_from
SELECT min(unit) FROM free_unit WHERE sale = ?1 AND sku = ?2 AND unit >= ?3;

-- name: free
INSERT INTO free_unit (sale, sku, unit) VALUES (?1, ?2, ?3);

-- name: disown
DELETE FROM owned_unit WHERE sale = ?1 AND sku = ?2 AND unit = ?3 AND reservation = ?4;

-- name: withdraw
INSERT INTO withdrawn_range (sale, sku, first, last) VALUES (?1, ?2, ?3, ?4);

-- name: withdrawn_from
SELECT first, last FROM withdrawn_range WHERE sale = ?1 AND sku = ?2 AND last >= ?3 ORDER BY last LIMIT 1;

-- name: withdrawn_down_from
SELECT first, last FROM withdrawn_range
WHERE sale = ?1 AND sku = ?2 AND last > ?3 AND last <= ?4 ORDER BY last DESC LIMIT 1;

-- name: forget_withdrawn_from
DELETE FROM withdrawn_range WHERE sale = ?1 AND sku = ?2 AND last >= ?3;
