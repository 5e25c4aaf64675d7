-- ?1 sale → id, name, total, limit per buyer
SELECT id, name, total, per_buyer FROM sku WHERE sale = ?1 ORDER BY id
