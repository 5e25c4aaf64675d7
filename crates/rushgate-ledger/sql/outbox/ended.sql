-- Deletes batches whose tasks have all been relayed or set aside.
DELETE FROM rushgate_outbox_batch
WHERE NOT EXISTS (SELECT 1 FROM json_each(positions) AS p CROSS JOIN rushgate_outbox AS o
                  WHERE o.position = p.value AND o.refused IS NULL)
