-- $1 SKU, $2 unit → whether it exists, whether it was withdrawn
SELECT $2::integer <= total,
       coalesce((SELECT first FROM withdrawn WHERE sku = $1 AND last >= $2 ORDER BY last LIMIT 1) <= $2, false)
FROM sku WHERE id = $1
