-- $1 SKU, $2 first numbers, $3 last ones; of numbers that no order owns and that were not withdrawn before
INSERT INTO withdrawn (sku, first, last)
SELECT $1, first, last FROM unnest($2::integer[], $3::integer[]) AS new (first, last)
