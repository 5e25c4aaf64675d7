-- $1 SKU, $2 highest unit to consider → the highest free unit, 0 if none. Scans taken ranges from the top: while
-- there is no gap, the start of a range plus the number of units from it on is constant.
WITH taken AS NOT MATERIALIZED (
    SELECT unit AS first, unit AS last FROM order_unit WHERE sku = $1 AND unit <= $2 AND live
    UNION ALL
    SELECT first, last FROM withdrawn WHERE sku = $1 AND last <= $2
)
SELECT coalesce(
    (SELECT ($2 + 1 - n + last - first)::integer
     FROM (SELECT first, last, sum(last - first + 1) OVER (ORDER BY last DESC ROWS UNBOUNDED PRECEDING) AS n
           FROM taken) AS placed
     WHERE first + n <> $2 + 1
     LIMIT 1),
    $2 - (SELECT coalesce(sum(last - first + 1), 0) FROM taken)::integer)
