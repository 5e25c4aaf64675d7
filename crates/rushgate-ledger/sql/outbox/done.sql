-- ?1 position. Deletes a relayed task.
DELETE FROM rushgate_outbox WHERE position = ?1
