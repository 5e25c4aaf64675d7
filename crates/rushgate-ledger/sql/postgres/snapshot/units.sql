-- $1 sale → order, SKU, unit, live, the column that contradicts the order or NULL; ordered like snapshot/orders.sql.
-- Includes released units.
SELECT u.order_id, u.sku, u.unit, u.live,
       CASE WHEN u.sale <> o.sale THEN 'sale'
            WHEN u.buyer <> o.buyer THEN 'buyer'
            WHEN k.sale IS DISTINCT FROM o.sale THEN 'SKU'
            WHEN u.per_buyer <> k.per_buyer THEN 'limit'
            WHEN u.live <> (o.state IN ('held', 'confirmed')) THEN 'state'
            WHEN u.live AND coalesce(u.slot NOT BETWEEN 1 AND k.per_buyer, true) THEN 'slot'
       END
FROM orders AS o JOIN order_unit AS u ON u.order_id = o.id LEFT JOIN sku AS k ON k.id = u.sku
WHERE o.sale = $1 ORDER BY o.id, u.sku, u.unit
