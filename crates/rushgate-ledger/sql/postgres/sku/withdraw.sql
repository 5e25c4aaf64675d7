-- $1 SKU, $2 numbers that no order owns
INSERT INTO withdrawn (sku, unit)
SELECT $1, unit FROM unnest($2::integer[]) AS unit
ON CONFLICT (sku, unit) DO NOTHING
