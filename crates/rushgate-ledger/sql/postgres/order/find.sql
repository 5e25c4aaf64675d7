-- $1 sales, $2 reservations → index in the lists, id, buyer, state, SKU's name and unit; one row for each unit that
-- the order owns, or one row with NULLs if it owns none
SELECT wanted.place, found.id, found.buyer, found.state, has.name, has.unit
FROM unnest($1::integer[], $2::bytea[]) WITH ORDINALITY AS wanted (sale, reservation, place)
CROSS JOIN LATERAL (
    SELECT id, buyer, state FROM orders
    WHERE sale = wanted.sale AND reservation = wanted.reservation
    OFFSET 0
) AS found
LEFT JOIN LATERAL (
    SELECT sku.name, order_unit.unit
    FROM order_unit JOIN sku ON sku.id = order_unit.sku
    WHERE order_unit.order_id = found.id AND order_unit.live
    ORDER BY order_unit.sku, order_unit.unit
    OFFSET 0
) AS has ON true
