-- The first tasks of a queue. What is too large is not read. ?1 the queue, ?2 so many, ?3 the largest content
SELECT position, queue, id, iif(octet_length(payload) <= ?3, payload, NULL), octet_length(payload),
       content_type, kind, due_at_ms, priority, max_attempts, key, on_duplicate, max_wait_ms, traceparent,
       CAST(unixepoch('subsec') * 1000 AS INTEGER) - added_at_ms
FROM rushgate_outbox WHERE queue = ?1 AND refused IS NULL ORDER BY position LIMIT ?2
