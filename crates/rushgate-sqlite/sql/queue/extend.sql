-- name: extend
UPDATE task SET lease_until_us = ?4 WHERE queue = ?1 AND id = ?2 AND claim = ?3 RETURNING cancelled;

-- name: note
UPDATE task SET lease_until_us = ?4, progress_percent = ?5, progress_note = ?6
WHERE queue = ?1 AND id = ?2 AND claim = ?3 RETURNING cancelled;
