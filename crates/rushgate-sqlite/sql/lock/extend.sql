-- name: extend
UPDATE lock SET lease_until_us = ?3 WHERE name = ?1 AND token = ?2 AND lease_until_us > ?4
RETURNING fence, waiters;
