-- Deletes a task that was moved. ?1 position
DELETE FROM rushgate_outbox WHERE position = ?1
