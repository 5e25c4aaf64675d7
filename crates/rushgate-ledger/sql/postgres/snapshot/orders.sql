-- $1 sale → id, reservation, buyer, state, generation, seq
SELECT id, reservation, buyer, state, generation, seq FROM orders WHERE sale = $1 ORDER BY id
