-- $1 SKU, $2 unit → whether it exists, whether it was withdrawn
SELECT $2::integer <= total, EXISTS (SELECT FROM withdrawn WHERE sku = $1 AND unit = $2) FROM sku WHERE id = $1
