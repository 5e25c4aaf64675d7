-- ?1 sale, ?2 SKU's name, ?3 total, ?4 limit per buyer → id. A total never shrinks, and the first limit is kept.
INSERT INTO sku (sale, name, total, per_buyer) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (sale, name) DO UPDATE SET total = max(total, excluded.total)
RETURNING id
