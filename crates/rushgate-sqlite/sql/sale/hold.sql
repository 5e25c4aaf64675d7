-- name: one
SELECT id, buyer, state, deadline_us, seq, generation, lines, units FROM hold WHERE sale = ?1 AND id = ?2;

-- name: state
UPDATE hold SET state = ?3 WHERE sale = ?1 AND id = ?2;
