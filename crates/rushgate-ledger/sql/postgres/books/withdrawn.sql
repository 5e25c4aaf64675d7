-- $1 sale → SKU, number
SELECT sku, unit FROM withdrawn WHERE sku = ANY (ARRAY(SELECT id FROM sku WHERE sale = $1)) ORDER BY sku, unit
