-- $1 maximum tasks and $2 maximum bytes per queue (at least one task), $3 maximum payload size → the first tasks of
-- each queue without a batch under way; larger payloads are not read
WITH RECURSIVE queues (queue) AS (
    (SELECT queue FROM outbox WHERE refused IS NULL ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT o.queue FROM outbox AS o WHERE o.refused IS NULL AND o.queue > q.queue ORDER BY o.queue LIMIT 1)
    FROM queues AS q WHERE q.queue IS NOT NULL
)
SELECT position, t.queue, id, CASE WHEN octet_length(payload) <= $3 THEN payload END, octet_length(payload)::bigint,
       content_type, kind, due_at_ms, priority, max_attempts, key, on_duplicate, max_wait_ms, traceparent,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint - added_at_ms
FROM queues AS q
CROSS JOIN LATERAL (
    SELECT *, sum(least(octet_length(payload), $3)) OVER (ORDER BY position) AS bytes, row_number() OVER (ORDER BY position) AS place
    FROM (SELECT * FROM outbox AS o WHERE o.queue = q.queue AND o.refused IS NULL ORDER BY position LIMIT $1) AS first
) AS t
WHERE q.queue IS NOT NULL AND NOT EXISTS (SELECT FROM outbox_batch AS b WHERE b.queue = q.queue)
      AND (t.bytes <= $2 OR t.place = 1)
ORDER BY t.queue, position
