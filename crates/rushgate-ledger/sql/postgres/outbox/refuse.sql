-- $1 position, $2 why. Sets a task aside and removes it from its batch.
WITH aside AS (UPDATE outbox SET refused = $2 WHERE position = $1)
UPDATE outbox_batch SET positions = array_replace(positions, $1, 0::bigint) WHERE $1 = ANY (positions)
