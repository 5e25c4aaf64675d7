-- The schema. Times are whole microseconds since the Unix epoch (`_us`). Tokens and reservation IDs are 16-byte blobs.

-- ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────────
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
CREATE TABLE lock_notification (
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

-- Releases of a lock with a task, so that a repeated call gets the same answer, also from another process.
CREATE TABLE lock_released_with (
    op     BLOB NOT NULL PRIMARY KEY,   -- 16 bytes
    at_us  INTEGER NOT NULL,
    answer TEXT NOT NULL                -- JSON
) WITHOUT ROWID;
CREATE INDEX lock_released_with_at ON lock_released_with (at_us);

-- ── queues ───────────────────────────────────────────────────────────────────────────────────────────────────────────
CREATE TABLE queue (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,
    paused          INTEGER NOT NULL DEFAULT 0,
    bound           INTEGER,                      -- capacity
    len             INTEGER NOT NULL DEFAULT 0,   -- rows in task
    revision        INTEGER NOT NULL DEFAULT 0,   -- latest revision assigned
    claim           INTEGER NOT NULL DEFAULT 0,   -- latest claim number assigned
    places          INTEGER NOT NULL DEFAULT 0,   -- latest place assigned
    concurrency     INTEGER,                      -- limits of the queue, and of each key
    rate_n          INTEGER,
    rate_us         INTEGER,
    key_concurrency INTEGER,
    key_rate_n      INTEGER,
    key_rate_us     INTEGER,
    key_fifo        INTEGER NOT NULL DEFAULT 0,
    keep_us         INTEGER,                      -- retention: maximum age and number of finished tasks
    keep_n          INTEGER,
    kept            INTEGER NOT NULL DEFAULT 0,   -- rows in finished
    overflow        INTEGER NOT NULL DEFAULT 0,   -- 0 refuse, 1 drop new, 2 drop oldest
    dropped         INTEGER NOT NULL DEFAULT 0,   -- number of dropped tasks
    events          INTEGER,                      -- number of events to keep; NULL for none
    event_last      INTEGER NOT NULL DEFAULT 0    -- number of the latest event
);

-- One live record per ID. It waits if `claim` is 0; otherwise it is leased under that number.
--
-- A waiting task becomes available at `at_us`. Tasks with the same `at_us` are ordered by `seat`. A task with a key has
-- both only while it is the first of its key group and the key's limits allow it to run. Within the group, tasks are
-- ordered by `line_us` and `place`. A task that waits for others has no seat and is in no key group.
CREATE TABLE task (
    arrival          INTEGER PRIMARY KEY,
    queue            INTEGER NOT NULL,
    id               TEXT NOT NULL,
    priority         INTEGER NOT NULL,
    due_us           INTEGER NOT NULL,
    revision         INTEGER NOT NULL,
    first_us         INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    max_attempts     INTEGER NOT NULL,
    content_type     TEXT NOT NULL,
    payload          BLOB NOT NULL,
    claim            INTEGER NOT NULL DEFAULT 0,
    lease_until_us   INTEGER NOT NULL DEFAULT 0,
    worker           TEXT,
    replaced         INTEGER NOT NULL DEFAULT 0,   -- a pending replacement waits for the end of this run
    cancelled        INTEGER NOT NULL DEFAULT 0,
    error            TEXT,
    key              TEXT,
    asked_us         INTEGER,                      -- requested due time, of a task with a key
    line_us          INTEGER,
    place            INTEGER,
    at_us            INTEGER,
    seat             INTEGER,
    past             TEXT,                         -- latest unsuccessful runs, as JSON
    progress_percent INTEGER,
    progress_note    TEXT,                         -- NULL if the worker has reported none
    gives_way        INTEGER NOT NULL DEFAULT 0,   -- whether it may be dropped for a new one
    deadline_us      INTEGER,                      -- from then on it is never claimed
    held             TEXT                          -- key of a task that waits for others, '' if none; NULL otherwise
);
CREATE UNIQUE INDEX task_id ON task (queue, id);
CREATE INDEX task_due ON task (queue, priority, at_us, seat) WHERE claim = 0 AND at_us IS NOT NULL;
CREATE INDEX task_lease ON task (queue, lease_until_us) WHERE claim > 0;
CREATE INDEX task_line ON task (queue, key, priority, line_us, place) WHERE claim = 0 AND key IS NOT NULL;
CREATE INDEX task_run ON task (queue, key) WHERE claim > 0 AND key IS NOT NULL;
CREATE INDEX task_oldest ON task (queue, first_us, id) WHERE claim = 0 AND gives_way = 1;
CREATE INDEX task_deadline ON task (queue, deadline_us, id) WHERE claim = 0 AND deadline_us IS NOT NULL;
CREATE INDEX task_held ON task (queue) WHERE held IS NOT NULL;

-- Pending replacements: tasks that were enqueued while a task of the same ID was leased.
CREATE TABLE pending_replacement (
    queue        INTEGER NOT NULL,
    id           TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    due_us       INTEGER NOT NULL,
    revision     INTEGER NOT NULL,
    first_us     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    payload      BLOB NOT NULL,
    key          TEXT,
    deadline_us  INTEGER,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;

-- Dead letters.
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
    key          TEXT,
    past         TEXT,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
-- For counting: the table has the payloads.
CREATE INDEX dead_queue ON dead (queue);

-- Retained tasks. `how`: 0 done, 1 discarded, 2 canceled. `result` is NULL if there is none.
CREATE TABLE finished (
    no           INTEGER PRIMARY KEY,
    queue        INTEGER NOT NULL,
    id           TEXT NOT NULL,
    finished_us  INTEGER NOT NULL,
    how          INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    due_us       INTEGER NOT NULL,
    revision     INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    payload      BLOB NOT NULL,
    key          TEXT,
    claim        INTEGER NOT NULL,
    worker       TEXT,
    error        TEXT,
    past         TEXT,
    result_type  TEXT,
    result       BLOB,
    deadline_us  INTEGER
);
CREATE UNIQUE INDEX finished_id ON finished (queue, id);
CREATE INDEX finished_at ON finished (queue, finished_us, id);

-- Uniqueness windows: until `until_us` the ID is not accepted again, whether or not its task is live.
CREATE TABLE unique_id (
    queue    INTEGER NOT NULL,
    id       TEXT NOT NULL,
    until_us INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX unique_id_until ON unique_id (until_us);

-- Key groups with tasks.
CREATE TABLE line (
    queue    INTEGER NOT NULL,
    key      TEXT NOT NULL,
    priority INTEGER NOT NULL,
    turn_us  INTEGER NOT NULL,   -- when the group's last task was claimed
    place    INTEGER NOT NULL,   -- arrival of the group, renewed with each turn
    first    INTEGER,            -- arrival of the group's latest task to get a seat
    PRIMARY KEY (queue, key, priority)
) WITHOUT ROWID;

-- Claim times, for rate limits. `per_key`: 0 for the queue's rate limit, 1 for those of its keys.
CREATE TABLE start (
    no      INTEGER PRIMARY KEY,
    queue   INTEGER NOT NULL,
    per_key INTEGER NOT NULL,
    key     TEXT NOT NULL,
    at_us   INTEGER NOT NULL
);
CREATE INDEX start_key ON start (queue, per_key, key, at_us);
CREATE INDEX start_at ON start (queue, per_key, at_us);

-- What a task waits for or has waited for. `how` is NULL until that task finishes: 0 done, 1 discarded, 2
-- canceled, 3 dropped, 4 popped, 5 deleted, 6 dead. `if_dead`: 0 keep waiting, 1 fail, 2 run.
CREATE TABLE wait (
    no          INTEGER PRIMARY KEY,
    arrival     INTEGER NOT NULL,   -- of the waiting task
    id          TEXT NOT NULL,      -- of the awaited task; '' while the batch is open
    queue       INTEGER NOT NULL,
    if_dead     INTEGER NOT NULL,
    how         INTEGER,
    over_us     INTEGER,
    result_type TEXT,
    result      BLOB,
    error       TEXT
);
CREATE UNIQUE INDEX wait_of ON wait (arrival, id);
CREATE INDEX wait_left ON wait (arrival, id) WHERE how IS NULL;
CREATE INDEX wait_for ON wait (queue, how, id, if_dead, arrival);

-- Finished tasks whose waiting tasks have not been updated.
CREATE TABLE ended (
    queue       INTEGER NOT NULL,
    at_us       INTEGER NOT NULL,
    id          TEXT NOT NULL,
    how         INTEGER NOT NULL,
    result_type TEXT,
    result      BLOB,
    error       TEXT,
    PRIMARY KEY (queue, at_us, id)
);

-- Events of a queue's tasks.
-- `what`: 0 added, 1 replaced, 2 claimed, 3 done, 4 discarded, 5 requeued, 6 failed, 7 lost, 8 released, 9 dead, 10
-- cancel asked, 11 canceled, 12 dropped, 13 popped, 14 deleted, 15 dead letter requeued, 16 dead letter deleted.
CREATE TABLE event_of_task (
    queue   INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at_us   INTEGER NOT NULL,
    what    INTEGER NOT NULL,
    id      TEXT NOT NULL,
    attempt INTEGER,
    due_us  INTEGER,
    text    TEXT,   -- the worker, or why it failed
    PRIMARY KEY (queue, seq)
) WITHOUT ROWID;

-- Schedules: each enqueues a task repeatedly.
CREATE TABLE schedule (
    queue        INTEGER NOT NULL,
    id           TEXT NOT NULL,
    revision     INTEGER NOT NULL,
    recurrence   TEXT NOT NULL,
    content_type TEXT NOT NULL,
    payload      BLOB NOT NULL,
    priority     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    next_us      INTEGER,   -- NULL: never
    previous_us  INTEGER,
    paused       INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX schedule_next ON schedule (queue, next_us) WHERE paused = 0 AND next_us IS NOT NULL;

-- Workers that announced themselves to a queue. One whose lease has ended is listed by none.
CREATE TABLE worker (
    queue          TEXT NOT NULL,
    id             TEXT NOT NULL,
    name           TEXT NOT NULL,
    version        TEXT NOT NULL,
    concurrency    INTEGER NOT NULL,
    running        INTEGER NOT NULL,
    since_us       INTEGER NOT NULL,
    seen_us        INTEGER NOT NULL,
    lease_until_us INTEGER NOT NULL,
    mode           INTEGER NOT NULL,   -- 0 work, 1 quiet, 2 stop
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX worker_ends ON worker (queue, lease_until_us);

-- The highest task number that a queue has from each outbox.
CREATE TABLE relayed (
    queue  INTEGER NOT NULL,
    outbox TEXT NOT NULL,
    upto   INTEGER NOT NULL,
    PRIMARY KEY (queue, outbox)
) WITHOUT ROWID;

-- ── sales ────────────────────────────────────────────────────────────────────────────────────────────────────────────
-- `part`: 0 the sale itself, -1 the data that a rebuild has loaded, otherwise a generation that a rebuild replaced.
-- The rows of a replaced generation are kept, to show what was lost. Other tables refer to `no` only.
CREATE TABLE sale (
    no          INTEGER PRIMARY KEY,
    id          TEXT NOT NULL,
    part        INTEGER NOT NULL DEFAULT 0,
    status      INTEGER NOT NULL DEFAULT 0,   -- 0 created, 1 open, 2 ended
    generation  INTEGER NOT NULL DEFAULT 1,
    seq         INTEGER NOT NULL DEFAULT 0,   -- number of the latest event
    hold_us     INTEGER NOT NULL,
    opens_us    INTEGER,
    closes_us   INTEGER,
    ledger      INTEGER NOT NULL,             -- whether a ledger records the orders
    secret      BLOB NOT NULL,
    halted_us   INTEGER,                      -- when it was halted; NULL if it is not
    reason      INTEGER NOT NULL DEFAULT 0,   -- of the halt: position in HaltReason::ALL
    rebuilt_by  BLOB,                         -- Op of the latest rebuild
    stopped_us  INTEGER,                      -- when the previous generation was halted
    switched_us INTEGER,                      -- when this generation replaced it
    receipts_us INTEGER,                      -- until when only receipts are honored
    through     INTEGER NOT NULL DEFAULT 0,   -- number of the latest event that was delivered to the ledger
    worker      BLOB,                         -- token of the order worker that follows the sale
    worker_until_us INTEGER NOT NULL DEFAULT 0,
    metadata    TEXT NOT NULL DEFAULT '',     -- JSON object for shop pages, or ''. Last, because it may be long
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
    ahead     INTEGER NOT NULL DEFAULT 0,   -- withdrawn units above next
    returned  INTEGER NOT NULL DEFAULT 0,   -- rows in free_unit
    held      INTEGER NOT NULL DEFAULT 0,
    confirmed INTEGER NOT NULL DEFAULT 0,
    withdrawn INTEGER NOT NULL DEFAULT 0,   -- units in withdrawn_range
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
    kind        INTEGER NOT NULL,   -- position in EventKind::ALL
    reservation BLOB,
    units       TEXT NOT NULL,
    PRIMARY KEY (sale, seq)
) WITHOUT ROWID;

-- Entries of the log that the ledger could not record.
CREATE TABLE failed_order (
    sale     INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    retry_us INTEGER NOT NULL,   -- when it is due again
    reason   TEXT NOT NULL,
    PRIMARY KEY (sale, seq)
) WITHOUT ROWID;

-- Answered stock changes, so that a repeated call gets the same answer, also from a process that starts later.
CREATE TABLE stock_change (
    op     BLOB NOT NULL PRIMARY KEY,   -- 16 bytes
    at_us  INTEGER NOT NULL,
    asked  TEXT NOT NULL,               -- JSON: sale, SKU, change
    answer TEXT NOT NULL                -- JSON
) WITHOUT ROWID;
CREATE INDEX stock_change_at ON stock_change (at_us);

-- ── waiting rooms ────────────────────────────────────────────────────────────────────────────────────────────────────
-- AUTOINCREMENT never reuses a number: the tickets of a closed room are deleted later, by its number.
-- Attempts to reserve that each server has answered. Those of servers that have ended may be under an empty name.
CREATE TABLE attempt (
    sale   TEXT NOT NULL,
    answer TEXT NOT NULL,
    server TEXT NOT NULL,
    n      INTEGER NOT NULL,
    at_us  INTEGER NOT NULL,   -- when it grew last
    PRIMARY KEY (sale, answer, server)
) WITHOUT ROWID;

CREATE TABLE room (
    no        INTEGER PRIMARY KEY AUTOINCREMENT,
    sale      TEXT NOT NULL UNIQUE,
    n         INTEGER NOT NULL,
    per_us    INTEGER NOT NULL,
    pass_us   INTEGER NOT NULL,
    draws     INTEGER NOT NULL,             -- whether the order is decided by a draw
    from_us   INTEGER,
    opened_us INTEGER NOT NULL,
    base      INTEGER NOT NULL DEFAULT 0,   -- positions served before `since_us`
    since_us  INTEGER,                      -- when the next position is served; NULL before a draw
    joined    INTEGER NOT NULL DEFAULT 0,
    admitted  INTEGER NOT NULL DEFAULT 0,
    secret    BLOB NOT NULL,
    entrants  INTEGER,
    beacon    TEXT,
    closed_us INTEGER                       -- when the entry was closed for the draw; `entrants` is fixed from then on
);

CREATE TABLE room_ticket (
    room     INTEGER NOT NULL,
    buyer    TEXT NOT NULL,
    serial   INTEGER NOT NULL,
    until_us INTEGER,   -- when the admission token expires; NULL if none was issued
    PRIMARY KEY (room, buyer)
) WITHOUT ROWID;

-- Closed rooms whose tickets have not all been deleted.
CREATE TABLE closed_room (no INTEGER PRIMARY KEY);
