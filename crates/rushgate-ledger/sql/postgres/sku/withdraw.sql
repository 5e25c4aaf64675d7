-- $1 SKU, $2 first units, $3 last units, all of them without an owner and not withdrawn before
INSERT INTO withdrawn (sku, first, last)
SELECT $1, first, last FROM unnest($2::integer[], $3::integer[]) AS new (first, last)
