-- Deletes batches whose tasks have all been relayed or set aside.
DELETE FROM outbox_batch AS b
WHERE NOT EXISTS (SELECT FROM unnest(b.positions) AS p (at)
                  JOIN outbox AS o ON o.position = p.at AND o.refused IS NULL)
