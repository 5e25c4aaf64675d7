-- ?1 SKU, ?2 buyer → filled slots, lowest first
SELECT slot FROM order_unit WHERE sku = ?1 AND buyer = ?2 AND live = 1 ORDER BY slot
