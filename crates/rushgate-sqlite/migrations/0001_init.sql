-- The initial schema. Times are whole microseconds since the Unix epoch (`_us`). Tokens and reservation IDs are
-- 16-byte blobs.

-- ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────
-- One row per lock that is or recently was in use. An idle row keeps the fencing token and the latest releases.
CREATE TABLE lock (
    name           TEXT PRIMARY KEY,
    fence          INTEGER NOT NULL,
    token          BLOB,                        -- the holder's; NULL if the lock is free
    lease_until_us INTEGER NOT NULL,            -- the holder's; time of the release if the lock is free
    since_us       INTEGER NOT NULL,
    host           TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    label          TEXT NOT NULL,
    released       BLOB NOT NULL DEFAULT x'',   -- tokens of the latest releases, newest first
    waiters        INTEGER NOT NULL DEFAULT 0   -- rows in lock_waiter
) WITHOUT ROWID;

-- The wait queue, by ticket. `state`: 0 waits, 1 was granted the lock for the claim window, 2 let the window pass.
CREATE TABLE lock_waiter (
    name          TEXT NOT NULL,
    ticket        INTEGER NOT NULL,
    token         BLOB NOT NULL,
    state         INTEGER NOT NULL DEFAULT 0,
    lease_us      INTEGER NOT NULL,
    wait_until_us INTEGER NOT NULL,
    since_us      INTEGER NOT NULL,
    host          TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    label         TEXT NOT NULL,
    PRIMARY KEY (name, ticket)
) WITHOUT ROWID;
CREATE UNIQUE INDEX lock_waiter_token ON lock_waiter (token, name);

-- Notifications for clients in other processes. `kind`: 0 ask, 1 revoked.
CREATE TABLE lock_notice (
    client INTEGER NOT NULL,
    token  BLOB NOT NULL,
    kind   INTEGER NOT NULL,
    at_us  INTEGER NOT NULL,
    PRIMARY KEY (client, token)
) WITHOUT ROWID;

-- The highest fencing token of any deleted lock row. No later token may be lower.
CREATE TABLE lock_floor (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    fence INTEGER NOT NULL
);
INSERT INTO lock_floor VALUES (1, 0);

-- ── queues ───────────────────────────────────────────────────────────────────────────────────────────────────────
CREATE TABLE queue (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    paused   INTEGER NOT NULL DEFAULT 0,
    bound    INTEGER,
    len      INTEGER NOT NULL DEFAULT 0,   -- rows in task
    revision INTEGER NOT NULL DEFAULT 0,   -- latest revision assigned
    claim    INTEGER NOT NULL DEFAULT 0,   -- latest claim number assigned
    reserved INTEGER NOT NULL DEFAULT 0    -- whether reserved for the orders of sales
);

-- One live record per ID. It waits if `claim` is 0; otherwise it is leased under that number.
CREATE TABLE task (
    arrival        INTEGER PRIMARY KEY,
    queue          INTEGER NOT NULL,
    id             TEXT NOT NULL,
    priority       INTEGER NOT NULL,
    due_us         INTEGER NOT NULL,
    revision       INTEGER NOT NULL,
    first_us       INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    max_attempts   INTEGER NOT NULL,
    content_type   TEXT NOT NULL,
    payload        BLOB NOT NULL,
    claim          INTEGER NOT NULL DEFAULT 0,
    lease_until_us INTEGER NOT NULL DEFAULT 0,
    worker         TEXT,
    replaced       INTEGER NOT NULL DEFAULT 0,  -- a pending replacement waits for the end of this run
    cancelled      INTEGER NOT NULL DEFAULT 0,
    error          TEXT
);
CREATE UNIQUE INDEX task_id ON task (queue, id);
CREATE INDEX task_due ON task (queue, priority, due_us) WHERE claim = 0;
CREATE INDEX task_lease ON task (queue, lease_until_us) WHERE claim > 0;

-- Pending replacements: tasks that were enqueued while a task of the same ID was leased.
CREATE TABLE newcomer (
    queue        INTEGER NOT NULL,
    id           TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    due_us       INTEGER NOT NULL,
    revision     INTEGER NOT NULL,
    first_us     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    payload      BLOB NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;

CREATE TABLE dead (
    queue        INTEGER NOT NULL,
    id           TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    payload      BLOB NOT NULL,
    error        TEXT NOT NULL,
    died_us      INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;

-- ── sales ────────────────────────────────────────────────────────────────────────────────────────────────────────
-- `part`: 0 the sale itself, -1 the data that a rebuild has loaded, otherwise a generation that a rebuild replaced.
-- The rows of a replaced generation are kept, to show what was lost. Other tables refer to `no` only.
CREATE TABLE sale (
    no           INTEGER PRIMARY KEY,
    id           TEXT NOT NULL,
    part         INTEGER NOT NULL DEFAULT 0,
    status       INTEGER NOT NULL DEFAULT 0,   -- 0 created, 1 open, 2 ended
    generation   INTEGER NOT NULL DEFAULT 1,
    seq          INTEGER NOT NULL DEFAULT 0,   -- number of the latest event
    hold_us      INTEGER NOT NULL,
    opens_us     INTEGER,
    closes_us    INTEGER,
    orders       TEXT,
    secret       BLOB NOT NULL,
    paused_us    INTEGER,                      -- when it was halted; NULL if it is not
    reason       INTEGER NOT NULL DEFAULT 0,   -- of the halt: position in PauseReason::ALL
    rebuilt_by   BLOB,                         -- Op of the latest rebuild
    stopped_us   INTEGER,                      -- when the previous generation was halted
    switched_us  INTEGER,                      -- when this generation replaced it
    receipts_us  INTEGER,                      -- until when only receipts are honored
    UNIQUE (id, part)
);

-- Units 1..=next were reserved or skipped at least once; those that are free again are in free_unit. All units above
-- next are free, except those in withdrawn_range.
CREATE TABLE sku (
    sale      INTEGER NOT NULL,
    no        INTEGER NOT NULL,
    sku       TEXT NOT NULL,
    initial   INTEGER NOT NULL,
    per_buyer INTEGER NOT NULL,
    total     INTEGER NOT NULL,
    next      INTEGER NOT NULL DEFAULT 0,
    ahead     INTEGER NOT NULL DEFAULT 0,      -- withdrawn units above next
    returned  INTEGER NOT NULL DEFAULT 0,      -- rows in free_unit
    held      INTEGER NOT NULL DEFAULT 0,
    confirmed INTEGER NOT NULL DEFAULT 0,
    withdrawn INTEGER NOT NULL DEFAULT 0,      -- units in withdrawn_range
    PRIMARY KEY (sale, no),
    CHECK (next + ahead BETWEEN 0 AND total),
    CHECK (next + ahead = returned + held + confirmed + withdrawn)
) WITHOUT ROWID;

CREATE TABLE free_unit (
    sale INTEGER NOT NULL,
    sku  INTEGER NOT NULL,
    unit INTEGER NOT NULL,
    PRIMARY KEY (sale, sku, unit)
) WITHOUT ROWID;

-- Ranges do not overlap, and none spans its SKU's next. The key orders them by their end: the first range that ends
-- at or after a unit either contains it or lies above it.
CREATE TABLE withdrawn_range (
    sale  INTEGER NOT NULL,
    sku   INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    first INTEGER NOT NULL,
    PRIMARY KEY (sale, sku, last),
    CHECK (first <= last)
) WITHOUT ROWID;

-- A held or sold unit has exactly one row: the primary key prevents a second owner.
CREATE TABLE owned_unit (
    sale        INTEGER NOT NULL,
    sku         INTEGER NOT NULL,
    unit        INTEGER NOT NULL,
    reservation BLOB NOT NULL,
    PRIMARY KEY (sale, sku, unit)
) WITHOUT ROWID;

CREATE TABLE buyer (
    sale  INTEGER NOT NULL,
    buyer TEXT NOT NULL,
    sku   INTEGER NOT NULL,
    units INTEGER NOT NULL CHECK (units >= 0),
    PRIMARY KEY (sale, buyer, sku)
) WITHOUT ROWID;

-- `state` is the position in HoldState::ALL. `units` is a list of `sku:number` and `sku:first-last`. `lines` is the
-- request.
CREATE TABLE hold (
    sale        INTEGER NOT NULL,
    id          BLOB NOT NULL,
    buyer       TEXT NOT NULL,
    state       INTEGER NOT NULL,
    deadline_us INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    lines       TEXT NOT NULL,
    units       TEXT NOT NULL,
    PRIMARY KEY (sale, id)
) WITHOUT ROWID;
CREATE INDEX hold_deadline ON hold (sale, deadline_us, seq) WHERE state = 0;

CREATE TABLE event (
    sale        INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    at_us       INTEGER NOT NULL,
    kind        INTEGER NOT NULL,              -- position in EventKind::ALL
    reservation BLOB,
    units       TEXT NOT NULL,
    PRIMARY KEY (sale, seq)
) WITHOUT ROWID;
