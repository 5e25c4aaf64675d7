-- $1 sale → order, SKU, unit; the units that are owned now, in the order of books/orders.sql
SELECT order_id, sku, unit FROM order_unit
WHERE sku = ANY (ARRAY(SELECT id FROM sku WHERE sale = $1)) AND live
ORDER BY order_id, sku, unit
