-- $1 count → that many new ids
SELECT nextval('order_id') FROM generate_series(1, $1::integer)
