-- The outbox in an SQLite file of the shop's own. Made if it is not there; a program may make it in its own migrations.
-- A transaction inserts rows into rushgate_outbox; once it has committed, the relay moves them into their queues and
-- deletes them. Content may be text or a blob.
CREATE TABLE IF NOT EXISTS rushgate_outbox (
    -- The order in which the tasks of a queue are moved.
    position     INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT NOT NULL,
    id           TEXT NOT NULL,
    payload      BLOB NOT NULL,
    content_type TEXT NOT NULL DEFAULT 'application/json',
    kind         TEXT,
    -- Not given out before, in milliseconds since 1970; at once if there is none.
    due_at_ms    INTEGER,
    -- 0 first to 9 last, 5 if there is none.
    priority     INTEGER,
    max_attempts INTEGER,
    key          TEXT,
    -- What becomes of it if the id is in already: keep, replace, earliest, or debounce with max_wait_ms.
    on_duplicate TEXT NOT NULL DEFAULT 'keep',
    max_wait_ms  INTEGER,
    traceparent  TEXT,
    added_at_ms  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    -- Why it cannot be moved: it is set aside, and no other waits for it.
    refused      TEXT
);
CREATE INDEX IF NOT EXISTS rushgate_outbox_waiting ON rushgate_outbox (queue, position) WHERE refused IS NULL;
CREATE INDEX IF NOT EXISTS rushgate_outbox_refused ON rushgate_outbox (position) WHERE refused IS NOT NULL;

-- What is on its way: written before it is sent, so that whoever sends it again numbers it alike. The tasks at these
-- positions (as JSON) have the numbers from `first` on.
CREATE TABLE IF NOT EXISTS rushgate_outbox_batch (
    queue     TEXT PRIMARY KEY,
    first     INTEGER NOT NULL,
    positions TEXT NOT NULL
) WITHOUT ROWID;

-- The name under which stores know this outbox, where it lives, and the last number that was given to a task. A copy
-- of the file lives elsewhere and gets a name of its own.
CREATE TABLE IF NOT EXISTS rushgate_outbox_state (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    id   TEXT NOT NULL,
    home TEXT NOT NULL,
    last INTEGER NOT NULL
);
