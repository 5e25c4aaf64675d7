-- Finished tasks, unsuccessful runs, and progress of running tasks.
ALTER TABLE queue ADD COLUMN keep_us INTEGER;           -- retention: maximum age and number of finished tasks
ALTER TABLE queue ADD COLUMN keep_n INTEGER;
ALTER TABLE queue ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;   -- rows in finished

ALTER TABLE task ADD COLUMN past TEXT;                  -- latest unsuccessful runs, as JSON
ALTER TABLE task ADD COLUMN progress_percent INTEGER;
ALTER TABLE task ADD COLUMN progress_note TEXT;         -- NULL if the worker has reported none
ALTER TABLE dead ADD COLUMN past TEXT;

-- `how`: 0 done, 1 discarded, 2 canceled. `result` is NULL if there is none.
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
    result       BLOB
);
CREATE UNIQUE INDEX finished_id ON finished (queue, id);
CREATE INDEX finished_at ON finished (queue, finished_us, id);
