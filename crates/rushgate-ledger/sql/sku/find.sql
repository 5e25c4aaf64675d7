-- ?1 sale, ?2 SKU's name → id, limit per buyer
SELECT id, per_buyer FROM sku WHERE sale = ?1 AND name = ?2
