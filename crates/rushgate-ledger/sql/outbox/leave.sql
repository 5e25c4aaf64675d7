-- ?1 position. Removes a task from its batch.
UPDATE rushgate_outbox_batch
SET positions = (SELECT json_group_array(iif(p.value = ?1, 0, p.value) ORDER BY p.key) FROM json_each(positions) AS p)
WHERE ?1 IN (SELECT value FROM json_each(positions))
