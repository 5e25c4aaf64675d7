-- ?1 order → SKU's name, unit; the units that the order owns
SELECT sku.name, order_unit.unit
FROM order_unit JOIN sku ON sku.id = order_unit.sku
WHERE order_unit.order_id = ?1 AND order_unit.live = 1
ORDER BY order_unit.sku, order_unit.unit
