-- $1 orders, $2 sales, $3 buyers, $4 SKUs, $5 units, $6 slots (NULL if not live), $7 limits per buyer; ordered by SKU
-- and unit, so that two writers never deadlock
INSERT INTO order_unit (order_id, sale, buyer, sku, unit, slot, per_buyer, live)
SELECT order_id, sale, buyer, sku, unit, slot, per_buyer, slot IS NOT NULL
FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::integer[], $5::integer[], $6::integer[], $7::integer[])
     AS new (order_id, sale, buyer, sku, unit, slot, per_buyer)
