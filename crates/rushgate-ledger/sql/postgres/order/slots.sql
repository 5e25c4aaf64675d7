-- $1 SKUs, $2 buyers → SKU, buyer, a filled slot
SELECT wanted.sku, wanted.buyer, has.slot
FROM unnest($1::integer[], $2::text[]) AS wanted (sku, buyer)
CROSS JOIN LATERAL (
    SELECT slot FROM order_unit WHERE sku = wanted.sku AND buyer = wanted.buyer AND live OFFSET 0
) AS has
