-- name: requeue_dead
INSERT INTO task (queue, id, priority, due_us, revision, first_us, attempts, max_attempts, content_type, payload,
                  at_us, seat, gives_way)
SELECT queue, id, priority, ?3, ?4, ?3, 0, max_attempts, content_type, payload, ?3, ?5, ?6 FROM dead
WHERE queue = ?1 AND id = ?2
ON CONFLICT (queue, id) DO NOTHING;

-- name: exists
SELECT priority, key FROM dead WHERE queue = ?1 AND id = ?2;
