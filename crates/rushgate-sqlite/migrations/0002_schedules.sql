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
    next_us      INTEGER,                       -- NULL: never
    previous_us  INTEGER,
    paused       INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX schedule_next ON schedule (queue, next_us) WHERE paused = 0 AND next_us IS NOT NULL;
