-- Deletes what was moved. $1 positions
DELETE FROM outbox WHERE position = ANY ($1)
