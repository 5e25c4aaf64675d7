-- Sets a task aside, and takes it out of its batch. $1 position, $2 why
WITH aside AS (UPDATE outbox SET refused = $2 WHERE position = $1)
UPDATE outbox_batch SET positions = array_replace(positions, $1, 0::bigint) WHERE $1 = ANY (positions)
