-- $1 SKU, $2 the highest number wanted → the highest number that is free, 0 if none is. Read from the top; without a
-- gap, the first number of a range and how many there are from it on add up to the same.
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
