-- Makes the outbox's name, or a new one if the database is a copy, and says it. $1 a new name, $2 where it lives
INSERT INTO outbox_state AS s (id, home, last) VALUES ($1, $2, 0)
ON CONFLICT (one) DO UPDATE SET id = CASE WHEN s.home = $2 THEN s.id ELSE $1 END, home = $2
RETURNING id
