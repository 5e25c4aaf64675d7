-- Ids that are unique for a period.
-- name: until
SELECT until_us FROM unique_id WHERE queue = ?1 AND id = ?2 AND until_us > ?3;

-- A period never ends before one of the same id that runs already.
-- name: begin
INSERT INTO unique_id (queue, id, until_us) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, id) DO UPDATE SET until_us = max(until_us, excluded.until_us);

-- Those that are over, of whichever queue, at most `?2` of them.
-- name: forget
DELETE FROM unique_id WHERE (queue, id) IN (
    SELECT queue, id FROM unique_id WHERE until_us <= ?1 ORDER BY until_us LIMIT ?2);

-- name: is_over
SELECT EXISTS (SELECT 1 FROM unique_id WHERE until_us <= ?1);

-- name: lift
DELETE FROM unique_id
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2 RETURNING until_us;

-- name: one
SELECT until_us FROM unique_id
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2 AND until_us > ?3;
