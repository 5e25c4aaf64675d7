-- Answered stock changes, by the `Op` of the call.
-- name: kept
SELECT asked, answer FROM stock_change WHERE op = ?1;

-- name: keep
INSERT INTO stock_change (op, at_us, asked, answer) VALUES (?1, ?2, ?3, ?4);

-- name: forget
DELETE FROM stock_change WHERE at_us < ?1;
