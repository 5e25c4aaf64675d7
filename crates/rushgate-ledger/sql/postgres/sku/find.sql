-- $1 sales, $2 SKUs' names → sale, name, id, limit per buyer
SELECT sku.sale, sku.name, sku.id, sku.per_buyer
FROM unnest($1::integer[], $2::text[]) AS wanted (sale, name)
CROSS JOIN LATERAL (SELECT * FROM sku WHERE sale = wanted.sale AND name = wanted.name OFFSET 0) AS sku
