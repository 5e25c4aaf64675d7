-- $1 SKU → total
SELECT total FROM sku WHERE id = $1
