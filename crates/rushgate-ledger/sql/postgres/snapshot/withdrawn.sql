-- $1 sale → SKU, first, last
SELECT sku, first, last FROM withdrawn WHERE sku = ANY (ARRAY(SELECT id FROM sku WHERE sale = $1)) ORDER BY sku, last
