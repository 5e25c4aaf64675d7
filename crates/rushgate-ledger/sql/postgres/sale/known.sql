-- $1 name → generation, the greatest sequence number in it, specification or NULL
SELECT generation,
       (SELECT max(seq) FROM orders WHERE orders.sale = sale.id AND orders.generation = sale.generation), spec
FROM sale WHERE name = $1
