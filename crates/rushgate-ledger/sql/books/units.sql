-- ?1 sale → order, SKU, unit; the units that are owned now, in the order of books/orders.sql. By way of the SKUs,
-- because the index of live units begins with them; other sales are not read.
SELECT order_id, sku, unit FROM order_unit
WHERE sku IN (SELECT id FROM sku WHERE sale = ?1) AND live = 1
ORDER BY order_id, sku, unit
