-- ?1 SKU, ?2 the highest number wanted → numbers that are not free, highest first. Both arms read an index in this
-- order, so that the caller may stop at the first gap.
SELECT unit FROM order_unit WHERE sku = ?1 AND unit <= ?2 AND live = 1
UNION ALL
SELECT unit FROM withdrawn WHERE sku = ?1 AND unit <= ?2
ORDER BY unit DESC
