-- name: answers
SELECT count(DISTINCT answer) FROM attempt WHERE sale = ?1;

-- name: knows
SELECT 1 FROM attempt WHERE sale = ?1 AND answer = ?2 LIMIT 1;

-- name: count
INSERT INTO attempt (sale, answer, server, n, at_us) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET n = excluded.n, at_us = excluded.at_us WHERE excluded.n > n;

-- The server of which no count grew for longest, if there are too many.
-- name: oldest
SELECT server FROM attempt WHERE sale = ?1 AND server <> '' GROUP BY server
ORDER BY max(at_us) DESC, server LIMIT 1 OFFSET ?2;

-- Adds the counts of a server to those that are of no server.
-- name: fold
INSERT INTO attempt (sale, answer, server, n, at_us)
SELECT sale, answer, '', n, at_us FROM attempt WHERE sale = ?1 AND server = ?2
ON CONFLICT DO UPDATE SET n = n + excluded.n;

-- name: forget
DELETE FROM attempt WHERE sale = ?1 AND server = ?2;

-- name: sums
SELECT answer, sum(n) FROM attempt WHERE sale = ?1 GROUP BY answer ORDER BY answer;
