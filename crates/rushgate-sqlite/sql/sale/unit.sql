-- Numbers that were given back.
-- name: take_lowest
DELETE FROM free_unit
WHERE sale = ?1 AND sku = ?2 AND unit IN (SELECT unit FROM free_unit WHERE sale = ?1 AND sku = ?2 ORDER BY unit LIMIT ?3)
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
INSERT INTO withdrawn_unit (sale, sku, unit) VALUES (?1, ?2, ?3);

-- name: withdrawn
SELECT unit FROM withdrawn_unit WHERE sale = ?1 AND sku = ?2 ORDER BY unit;

-- name: all_free
SELECT unit FROM free_unit WHERE sale = ?1 AND sku = ?2 ORDER BY unit;
