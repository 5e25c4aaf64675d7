-- ?1 SKU → first, last
SELECT first, last FROM withdrawn WHERE sku = ?1 ORDER BY last
