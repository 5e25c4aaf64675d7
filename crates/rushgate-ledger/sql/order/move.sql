-- ?1 order, ?2 state, ?3 now in µs. The trigger order_gives_back releases the units.
UPDATE orders SET state = ?2, changed_at_us = ?3 WHERE id = ?1 AND state = 'held'
