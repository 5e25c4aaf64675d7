-- name: load
SELECT no, n, per_us, pass_us, draws, from_us, opened_us, base, since_us, joined, admitted, secret, entrants, beacon,
       closed_us
FROM room WHERE sale = ?1;

-- name: store
UPDATE room
SET n = ?2, per_us = ?3, pass_us = ?4, from_us = ?5, base = ?6, since_us = ?7, joined = ?8, admitted = ?9,
    entrants = ?10, beacon = ?11, closed_us = ?12
WHERE no = ?1;

-- name: open
INSERT INTO room (sale, n, per_us, pass_us, draws, from_us, opened_us, since_us, secret)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: sale
SELECT 1 FROM sale WHERE id = ?1 AND part = 0;
