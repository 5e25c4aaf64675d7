-- Releases with a task, by the `Op` of the call.
-- name: kept
SELECT answer FROM lock_released_with WHERE op = ?1;

-- name: keep
INSERT INTO lock_released_with (op, at_us, answer) VALUES (?1, ?2, ?3)
ON CONFLICT (op) DO UPDATE SET at_us = ?2, answer = ?3;
