-- name: sale
INSERT INTO sale (id, hold_us, opens_us, closes_us, ledger, secret, part, metadata)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
RETURNING no;

-- name: sku
INSERT INTO sku (sale, no, sku, initial, per_buyer, total) VALUES (?1, ?2, ?3, ?4, ?5, ?4);
