-- ?1 SKU, ?2 first unit, ?3 last unit, all of them without an owner and not withdrawn before
INSERT INTO withdrawn (sku, first, last) VALUES (?1, ?2, ?3)
