-- $1 SKU, $2 the highest number wanted → the highest number that is free, 0 if none is. Read from the top; without a
-- gap, a number and its place add up to the same.
WITH taken AS NOT MATERIALIZED (
    SELECT unit FROM order_unit WHERE sku = $1 AND unit <= $2 AND live
    UNION ALL
    SELECT unit FROM withdrawn WHERE sku = $1 AND unit <= $2
)
SELECT coalesce(
    (SELECT ($2 + 1 - place)::integer
     FROM (SELECT unit, row_number() OVER (ORDER BY unit DESC) AS place FROM taken) AS placed
     WHERE unit + place <> $2 + 1
     LIMIT 1),
    $2 - (SELECT count(*) FROM taken)::integer)
