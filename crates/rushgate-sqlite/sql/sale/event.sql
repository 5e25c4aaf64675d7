-- name: append
INSERT INTO event (sale, seq, at_us, kind, reservation, units) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: after
SELECT seq, at_us, kind, reservation, units FROM event WHERE sale = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3;
