-- ?1 a new ID, ?2 location → the outbox's ID. Creates it, or replaces it if the file is a copy.
INSERT INTO rushgate_outbox_state (one, id, home, last) VALUES (1, ?1, ?2, 0)
ON CONFLICT (one) DO UPDATE SET id = CASE WHEN home = excluded.home THEN id ELSE excluded.id END, home = excluded.home
RETURNING id
