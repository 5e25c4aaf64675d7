-- ?1 SKU, ?2 numbers as a JSON array → those that an order owns
SELECT unit FROM order_unit
WHERE sku = ?1 AND live = 1 AND unit IN (SELECT value FROM json_each(?2))
ORDER BY unit
