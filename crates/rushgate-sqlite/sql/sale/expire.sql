-- name: due
SELECT id, buyer, state, deadline_us, seq, generation, lines, units FROM hold
WHERE sale = ?1 AND state = 0 AND deadline_us <= ?2 ORDER BY deadline_us, seq LIMIT ?3;
