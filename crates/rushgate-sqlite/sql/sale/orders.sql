-- How order workers follow a sale.
-- name: fail
INSERT INTO failed_order (sale, seq, attempts, retry_us, reason) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET attempts = ?3, retry_us = ?4, reason = ?5;

-- name: recover
DELETE FROM failed_order WHERE sale = ?1 AND seq = ?2;

-- An entry that is due later than the longest delay from now is due as well.
-- name: due
SELECT seq, attempts FROM failed_order WHERE sale = ?1 AND (retry_us <= ?2 OR retry_us > ?3) ORDER BY seq;

-- name: count
SELECT count(*) FROM failed_order WHERE sale = ?1;

-- name: page
SELECT seq, attempts, retry_us, reason FROM failed_order WHERE sale = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: retry
UPDATE failed_order SET retry_us = ?2 WHERE sale = ?1 AND retry_us > ?2;

-- name: event_time
SELECT at_us FROM event WHERE sale = ?1 AND seq = ?2;

-- name: latest
SELECT seq FROM sale WHERE id = ?1 AND part = 0;
