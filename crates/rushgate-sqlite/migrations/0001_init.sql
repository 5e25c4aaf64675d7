-- The first schema. Times are whole microseconds since the Unix epoch (`_us`); tokens and ids are 16-byte blobs.

-- ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────
-- A row per lock that is or lately was in use. An idle row keeps the fence and the latest releases.
CREATE TABLE lock (
    name           TEXT PRIMARY KEY,
    fence          INTEGER NOT NULL,
    token          BLOB,                        -- the holder's; NULL if nobody holds it
    lease_until_us INTEGER NOT NULL,            -- of the holder; when it was released, if nobody holds it
    since_us       INTEGER NOT NULL,
    host           TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    label          TEXT NOT NULL,
    released       BLOB NOT NULL DEFAULT x'',   -- the tokens that released it, the last first
    waiters        INTEGER NOT NULL DEFAULT 0   -- rows in lock_waiter
) WITHOUT ROWID;

-- The line, by ticket. `state`: 0 waits, 1 was granted the lock for the claim window, 2 let the window pass.
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

-- News for clients in other processes. `kind`: 0 ask, 1 revoked.
CREATE TABLE lock_notice (
    client INTEGER NOT NULL,
    token  BLOB NOT NULL,
    kind   INTEGER NOT NULL,
    at_us  INTEGER NOT NULL,
    PRIMARY KEY (client, token)
) WITHOUT ROWID;

-- The highest fence of any lock row that was forgotten: no later fence may be lower.
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
    revision INTEGER NOT NULL DEFAULT 0,   -- the latest given
    claim    INTEGER NOT NULL DEFAULT 0,   -- the latest given
    reserved INTEGER NOT NULL DEFAULT 0    -- for the orders of sales
);

-- One live record per id. It waits if `claim` is 0, otherwise it is leased under that number.
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
    replaced       INTEGER NOT NULL DEFAULT 0,  -- a row in newcomer waits for the end of this run
    cancelled      INTEGER NOT NULL DEFAULT 0,
    error          TEXT
);
CREATE UNIQUE INDEX task_id ON task (queue, id);
CREATE INDEX task_due ON task (queue, priority, due_us) WHERE claim = 0;
CREATE INDEX task_lease ON task (queue, lease_until_us) WHERE claim > 0;

-- What an enqueue put in while the task was leased.
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
-- `part`: 0 the sale itself, -1 what a rebuild has loaded so far, otherwise the generation that a rebuild has replaced:
-- its rows stay as they were, for whoever wants to know what was lost. Only `no` is in the other tables.
CREATE TABLE sale (
    no           INTEGER PRIMARY KEY,
    id           TEXT NOT NULL,
    part         INTEGER NOT NULL DEFAULT 0,
    status       INTEGER NOT NULL DEFAULT 0,   -- 0 created, 1 open, 2 ended
    generation   INTEGER NOT NULL DEFAULT 1,
    seq          INTEGER NOT NULL DEFAULT 0,   -- the latest event
    hold_us      INTEGER NOT NULL,
    opens_us     INTEGER,
    closes_us    INTEGER,
    orders       TEXT,
    secret       BLOB NOT NULL,
    paused_us    INTEGER,                      -- since when it is stopped until it is rebuilt
    reason       INTEGER NOT NULL DEFAULT 0,   -- why: the position in PauseReason::ALL
    rebuilt_by   BLOB,                         -- the Op of whoever began to rebuild it last
    stopped_us   INTEGER,                      -- when the previous generation was stopped,
    switched_us  INTEGER,                      -- and when this one took its place
    receipts_us  INTEGER,                      -- until when only receipts are honoured
    UNIQUE (id, part)
);

-- Numbers 1..=next were handed out or passed over at least once; those that are free again are in free_unit. All above
-- are free but for those in withdrawn_range.
CREATE TABLE sku (
    sale      INTEGER NOT NULL,
    no        INTEGER NOT NULL,
    sku       TEXT NOT NULL,
    initial   INTEGER NOT NULL,
    per_buyer INTEGER NOT NULL,
    total     INTEGER NOT NULL,
    next      INTEGER NOT NULL DEFAULT 0,
    ahead     INTEGER NOT NULL DEFAULT 0,      -- withdrawn numbers above next
    returned  INTEGER NOT NULL DEFAULT 0,      -- rows in free_unit
    held      INTEGER NOT NULL DEFAULT 0,
    confirmed INTEGER NOT NULL DEFAULT 0,
    withdrawn INTEGER NOT NULL DEFAULT 0,      -- numbers in withdrawn_range
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

-- Ranges do not overlap, and none lies on both sides of its SKU's next. By their ends: the first that ends at a number
-- or later either has it or lies above it.
CREATE TABLE withdrawn_range (
    sale  INTEGER NOT NULL,
    sku   INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    first INTEGER NOT NULL,
    PRIMARY KEY (sale, sku, last),
    CHECK (first <= last)
) WITHOUT ROWID;

-- A unit that is held or sold has exactly one row: the key refuses a second owner.
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

-- `state` is the position in HoldState::ALL. `units` is a list of `sku:number` and `sku:first-last`, `lines` what was
-- asked for.
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
    kind        INTEGER NOT NULL,              -- the position in EventKind::ALL
    reservation BLOB,
    units       TEXT NOT NULL,
    PRIMARY KEY (sale, seq)
) WITHOUT ROWID;
