-- $1 maximum payload size → tasks of the batches under way, with their numbers
SELECT position, o.queue, id, CASE WHEN octet_length(payload) <= $1 THEN payload END, octet_length(payload)::bigint,
       content_type, kind, due_at_ms, priority, max_attempts, key, on_duplicate, max_wait_ms, traceparent,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint - added_at_ms,
       b.first + p.place - 1
FROM outbox_batch AS b
CROSS JOIN LATERAL unnest(b.positions) WITH ORDINALITY AS p (at, place)
JOIN outbox AS o ON o.position = p.at AND o.refused IS NULL
ORDER BY b.queue, p.place
