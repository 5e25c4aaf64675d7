-- name: extend
UPDATE task SET lease_until_us = ?4 WHERE queue = ?1 AND id = ?2 AND claim = ?3 RETURNING cancelled;
