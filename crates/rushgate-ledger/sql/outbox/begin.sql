-- Makes the outbox's name, or a new one if the file is a copy, and says it. ?1 a new name, ?2 where it lives
INSERT INTO rushgate_outbox_state (one, id, home, last) VALUES (1, ?1, ?2, 0)
ON CONFLICT (one) DO UPDATE SET id = CASE WHEN home = excluded.home THEN id ELSE excluded.id END, home = excluded.home
RETURNING id
