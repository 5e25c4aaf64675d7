-- $1 SKU, $2 numbers → those that an order owns
SELECT unit FROM order_unit WHERE sku = $1 AND live AND unit = ANY ($2) ORDER BY unit
