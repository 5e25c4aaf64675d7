-- ?1 SKU → number
SELECT unit FROM withdrawn WHERE sku = ?1 ORDER BY unit
