-- → queues with waiting tasks and no batch under way
WITH RECURSIVE queues (queue) AS (
    SELECT min(queue) FROM rushgate_outbox WHERE refused IS NULL
    UNION ALL
    SELECT (SELECT min(o.queue) FROM rushgate_outbox AS o WHERE o.refused IS NULL AND o.queue > q.queue)
    FROM queues AS q WHERE q.queue IS NOT NULL
)
SELECT queue FROM queues
WHERE queue IS NOT NULL AND queue NOT IN (SELECT queue FROM rushgate_outbox_batch) ORDER BY queue
