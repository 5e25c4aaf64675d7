-- ?1 maximum payload size → tasks of the batches under way, with their numbers
SELECT o.position, o.queue, o.id, iif(octet_length(o.payload) <= ?1, o.payload, NULL), octet_length(o.payload),
       o.content_type, o.kind, o.due_at_ms, o.priority, o.max_attempts, o.key, o.on_duplicate, o.max_wait_ms,
       o.traceparent, CAST(unixepoch('subsec') * 1000 AS INTEGER) - o.added_at_ms, b.first + p.key
FROM rushgate_outbox_batch AS b
CROSS JOIN json_each(b.positions) AS p
CROSS JOIN rushgate_outbox AS o ON o.position = p.value AND o.refused IS NULL
ORDER BY b.queue, p.key
