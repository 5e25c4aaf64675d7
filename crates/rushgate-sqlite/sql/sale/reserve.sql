-- name: has
SELECT units FROM buyer WHERE sale = ?1 AND buyer = ?2 AND sku = ?3;

-- name: count
INSERT INTO buyer (sale, buyer, sku, units) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (sale, buyer, sku) DO UPDATE SET units = units + ?4;

-- name: uncount
UPDATE buyer SET units = units - ?4 WHERE sale = ?1 AND buyer = ?2 AND sku = ?3;

-- name: own
INSERT INTO owned_unit (sale, sku, unit, reservation) VALUES (?1, ?2, ?3, ?4);

-- name: hold
INSERT INTO hold (sale, id, buyer, state, deadline_us, seq, generation, lines, units)
VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8);
