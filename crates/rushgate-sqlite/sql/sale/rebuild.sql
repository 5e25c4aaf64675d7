-- Data loaded by a rebuild, and the replacement of the sale.
-- name: total
UPDATE sku SET total = ?3 WHERE sale = ?1 AND no = ?2;

-- name: part
UPDATE sale SET part = ?2 WHERE no = ?1;

-- name: load_free
INSERT INTO free_unit (sale, sku, unit) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: load_withdrawn
INSERT INTO withdrawn_range (sale, sku, first, last) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: drop_sale
DELETE FROM sale WHERE no = ?1;

-- name: drop_skus
DELETE FROM sku WHERE sale = ?1;

-- name: drop_free
DELETE FROM free_unit WHERE sale = ?1;

-- name: drop_withdrawn
DELETE FROM withdrawn_range WHERE sale = ?1;

-- name: drop_owned
DELETE FROM owned_unit WHERE sale = ?1;

-- name: drop_buyers
DELETE FROM buyer WHERE sale = ?1;

-- name: drop_holds
DELETE FROM hold WHERE sale = ?1;

-- name: drop_events
DELETE FROM event WHERE sale = ?1;

-- name: is_free
SELECT 1 FROM free_unit WHERE sale = ?1 AND sku = ?2 AND unit = ?3;
