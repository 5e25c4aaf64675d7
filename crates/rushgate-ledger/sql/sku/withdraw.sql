-- ?1 SKU, ?2 first number, ?3 last; of numbers that no order owns and that were not withdrawn before
INSERT INTO withdrawn (sku, first, last) VALUES (?1, ?2, ?3)
