-- ?1 SKU, ?2 first unit, ?3 last unit → ranges of them that cannot be withdrawn, in order: first, last, and whether
-- an order owns it (otherwise it was withdrawn before)
SELECT unit AS first, unit AS last, 1 AS owned FROM order_unit WHERE sku = ?1 AND unit BETWEEN ?2 AND ?3 AND live = 1
UNION ALL
SELECT first, last, 0 FROM withdrawn WHERE sku = ?1 AND last BETWEEN ?2 AND ?3
UNION ALL
SELECT first, last, 0
FROM (SELECT first, last FROM withdrawn WHERE sku = ?1 AND last > ?3 ORDER BY last LIMIT 1) WHERE first <= ?3
ORDER BY first
