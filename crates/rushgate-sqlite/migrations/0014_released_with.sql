-- Releases of a lock with a task, so that a repeated call gets the same answer, also from another process.
CREATE TABLE lock_released_with (
    op      BLOB NOT NULL PRIMARY KEY,  -- 16 bytes
    at_us   INTEGER NOT NULL,
    answer  TEXT NOT NULL               -- JSON
) WITHOUT ROWID;
CREATE INDEX lock_released_with_at ON lock_released_with (at_us);
