-- Uniqueness windows of task IDs.
-- name: until
SELECT until_us FROM unique_id WHERE queue = ?1 AND id = ?2 AND until_us > ?3;

-- A new window never shortens a current one of the same ID.
-- name: begin
INSERT INTO unique_id (queue, id, until_us) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, id) DO UPDATE SET until_us = max(until_us, excluded.until_us);

-- Deletes up to `?2` expired windows, of any queue.
-- name: forget
DELETE FROM unique_id WHERE (queue, id) IN (
    SELECT queue, id FROM unique_id WHERE until_us <= ?1 ORDER BY until_us LIMIT ?2);

-- name: is_over
SELECT EXISTS (SELECT 1 FROM unique_id WHERE until_us <= ?1);

-- name: clear_unique
DELETE FROM unique_id
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2 RETURNING until_us;

-- name: one
SELECT until_us FROM unique_id
WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND id = ?2 AND until_us > ?3;
