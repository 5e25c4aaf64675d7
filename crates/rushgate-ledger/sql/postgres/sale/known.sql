-- $1 name → generation, the greatest sequence number in it, specification or NULL, secret or NULL
SELECT generation,
       (SELECT max(seq) FROM orders WHERE orders.sale = sale.id AND orders.generation = sale.generation), spec,
       (SELECT secret FROM sale_secret WHERE sale_secret.sale = sale.id)
FROM sale WHERE name = $1
