-- Answered stock changes, so that a repeated call gets the same answer, also from a process that starts later.
CREATE TABLE stock_change (
    op      BLOB NOT NULL PRIMARY KEY,  -- 16 bytes
    at_us   INTEGER NOT NULL,
    asked   TEXT NOT NULL,              -- JSON: sale, SKU, change
    answer  TEXT NOT NULL               -- JSON
) WITHOUT ROWID;
CREATE INDEX stock_change_at ON stock_change (at_us);
