-- $1 a new ID, $2 location → the outbox's ID. Creates it, or replaces it if the database is a copy.
INSERT INTO outbox_state AS s (id, home, last) VALUES ($1, $2, 0)
ON CONFLICT (one) DO UPDATE SET id = CASE WHEN s.home = $2 THEN s.id ELSE $1 END, home = $2
RETURNING id
