-- ?1 queue, ?2 number of tasks, ?3 maximum payload size → the queue's first tasks; larger payloads are not read
SELECT position, queue, id, iif(octet_length(payload) <= ?3, payload, NULL), octet_length(payload),
       content_type, kind, due_at_ms, priority, max_attempts, key, on_duplicate, max_wait_ms, traceparent,
       CAST(unixepoch('subsec') * 1000 AS INTEGER) - added_at_ms
FROM rushgate_outbox WHERE queue = ?1 AND refused IS NULL ORDER BY position LIMIT ?2
