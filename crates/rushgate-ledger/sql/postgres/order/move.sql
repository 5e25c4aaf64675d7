-- $1 orders, $2 state, $3 now in µs. The trigger order_gives_back releases the units. Skips orders that another
-- transaction moved meanwhile; the caller checks the row count.
UPDATE orders SET state = $2, changed_at_us = $3 WHERE id = ANY ($1) AND state = 'held'
