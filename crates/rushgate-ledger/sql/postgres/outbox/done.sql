-- $1 positions. Deletes relayed tasks.
DELETE FROM outbox WHERE position = ANY ($1)
