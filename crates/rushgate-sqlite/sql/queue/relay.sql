-- name: upto
SELECT upto FROM relayed WHERE queue = ?1 AND outbox = ?2;

-- name: note
INSERT INTO relayed (queue, outbox, upto) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, outbox) DO UPDATE SET upto = excluded.upto;
