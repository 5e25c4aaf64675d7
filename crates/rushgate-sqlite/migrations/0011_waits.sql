-- Tasks that wait for other tasks of their queue. `held`: the key of a task that waits for others, '' if it has none;
-- NULL for all other tasks. A task that waits for others has no seat and is in no key group.
ALTER TABLE task ADD COLUMN held TEXT;
CREATE INDEX task_held ON task (queue) WHERE held IS NOT NULL;

-- What each of them waits for or has waited for. `how` is NULL until that task finishes: 0 done, 1 discarded, 2
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
