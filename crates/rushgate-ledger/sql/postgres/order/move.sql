-- $1 orders, $2 state, $3 now in µs. The trigger order_gives_back gives the units back. One that was moved meanwhile is
-- left out, and the caller counts.
UPDATE orders SET state = $2, changed_at_us = $3 WHERE id = ANY ($1) AND state = 'held'
