-- ?1 SKU, ?2 numbers as a JSON array. Those that an order owns are left out: the buyer has them.
INSERT INTO withdrawn (sku, unit)
SELECT ?1, value FROM json_each(?2) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM order_unit WHERE sku = ?1 AND unit = wanted.value AND live = 1)
ON CONFLICT (sku, unit) DO NOTHING
