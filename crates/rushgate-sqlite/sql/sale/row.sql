-- A sale and its stock, read and written once per group of calls.
-- name: sale
SELECT no, status, generation, seq, hold_us, opens_us, closes_us, ledger, secret, halted_us, reason, rebuilt_by,
       stopped_us, switched_us, receipts_us, through, worker, worker_until_us, metadata
FROM sale WHERE id = ?1 AND part = ?2;

-- name: skus
SELECT no, sku, initial, per_buyer, total, next, ahead, returned, held, confirmed, withdrawn FROM sku
WHERE sale = ?1 ORDER BY no;

-- name: store_sale
UPDATE sale
SET status = ?2, seq = ?3, generation = ?4, halted_us = ?5, reason = ?6, rebuilt_by = ?7, stopped_us = ?8,
    switched_us = ?9, receipts_us = ?10, through = ?11, worker = ?12, worker_until_us = ?13
WHERE no = ?1;

-- name: store_sku
UPDATE sku SET total = ?3, next = ?4, ahead = ?5, returned = ?6, held = ?7, confirmed = ?8, withdrawn = ?9
WHERE sale = ?1 AND no = ?2;

-- name: next_expiry
SELECT min(deadline_us) FROM hold WHERE sale = ?1 AND state = 0;

-- name: ids
SELECT id FROM sale WHERE id > ?1 AND part = 0 ORDER BY id LIMIT ?2;
