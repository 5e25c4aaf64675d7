-- name: revive
INSERT INTO task (queue, id, priority, due_us, revision, first_us, attempts, max_attempts, content_type, payload)
SELECT queue, id, priority, ?3, ?4, ?3, 0, max_attempts, content_type, payload FROM dead WHERE queue = ?1 AND id = ?2
ON CONFLICT (queue, id) DO NOTHING;

-- name: exists
SELECT 1 FROM dead WHERE queue = ?1 AND id = ?2;
