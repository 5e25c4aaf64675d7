-- The outbox in the application's own SQLite file. It is created if missing; an application may also create it in its
-- own migrations. A transaction inserts rows into rushgate_outbox. Once it has committed, the relay moves them into
-- their queues and deletes them. The payload may be text or a blob.
CREATE TABLE IF NOT EXISTS rushgate_outbox (
    -- The order in which the tasks of a queue are moved.
    position     INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT NOT NULL,
    id           TEXT NOT NULL,
    payload      BLOB NOT NULL,
    content_type TEXT NOT NULL DEFAULT 'application/json',
    kind         TEXT,
    -- Due time, in milliseconds since 1970. NULL: due at once.
    due_at_ms    INTEGER,
    -- 0 (first) to 9 (last). NULL: 5.
    priority     INTEGER,
    max_attempts INTEGER,
    key          TEXT,
    -- What happens if the ID is live: keep, replace, earliest, or debounce with max_wait_ms.
    on_duplicate TEXT NOT NULL DEFAULT 'keep',
    max_wait_ms  INTEGER,
    traceparent  TEXT,
    added_at_ms  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    -- Why the task cannot be moved. Such a task is set aside and does not block others.
    refused      TEXT
);
CREATE INDEX IF NOT EXISTS rushgate_outbox_waiting ON rushgate_outbox (queue, position) WHERE refused IS NULL;
CREATE INDEX IF NOT EXISTS rushgate_outbox_refused ON rushgate_outbox (position) WHERE refused IS NOT NULL;

-- Batches under way, written before they are sent so that a repeated delivery uses the same numbers. The tasks at
-- these positions (as JSON) have consecutive numbers from `first` on.
CREATE TABLE IF NOT EXISTS rushgate_outbox_batch (
    queue     TEXT PRIMARY KEY,
    first     INTEGER NOT NULL,
    positions TEXT NOT NULL
) WITHOUT ROWID;

-- The outbox's ID in stores, its location, and the last task number assigned. A copy of the file has another location
-- and gets a new ID.
CREATE TABLE IF NOT EXISTS rushgate_outbox_state (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    id   TEXT NOT NULL,
    home TEXT NOT NULL,
    last INTEGER NOT NULL
);
