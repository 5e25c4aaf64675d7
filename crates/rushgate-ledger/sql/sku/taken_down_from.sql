-- ?1 SKU, ?2 highest unit to consider → ranges that are not free, highest first: first, last. Both arms read an index
-- in this order, so the caller can stop at the first gap.
SELECT unit AS first, unit AS last FROM order_unit WHERE sku = ?1 AND unit <= ?2 AND live = 1
UNION ALL
SELECT first, last FROM withdrawn WHERE sku = ?1 AND last <= ?2
ORDER BY last DESC
