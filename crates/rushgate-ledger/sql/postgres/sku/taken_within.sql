-- $1 SKU, $2 first units, $3 last units → ranges of them that cannot be withdrawn, in order: index in the lists,
-- first, last, and whether an order owns it (otherwise it was withdrawn before)
SELECT wanted.place, taken.first, taken.last, taken.owned
FROM unnest($2::integer[], $3::integer[]) WITH ORDINALITY AS wanted (first, last, place)
CROSS JOIN LATERAL (
    SELECT unit AS first, unit AS last, true AS owned
    FROM order_unit WHERE sku = $1 AND unit BETWEEN wanted.first AND wanted.last AND live
    UNION ALL
    SELECT first, last, false FROM withdrawn WHERE sku = $1 AND last BETWEEN wanted.first AND wanted.last
    UNION ALL
    SELECT first, last, false
    FROM (SELECT first, last FROM withdrawn WHERE sku = $1 AND last > wanted.last ORDER BY last LIMIT 1) AS next
    WHERE first <= wanted.last
) AS taken
ORDER BY wanted.place, taken.first
