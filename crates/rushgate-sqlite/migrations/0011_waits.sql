-- Tasks that wait for others of their queue.
-- The key of a task that waits for others, '' if it has none; NULL of any other. It has no seat and stands in no line.
ALTER TABLE task ADD COLUMN held TEXT;
CREATE INDEX task_held ON task (queue) WHERE held IS NOT NULL;

-- What they wait for, and waited for. `how` is NULL until that is over: 0 done, 1 discarded, 2 cancelled, 3 dropped,
-- 4 popped, 5 deleted, 6 dead. `if_dead`: 0 it goes on waiting, 1 it fails, 2 it runs.
CREATE TABLE wait (
    no          INTEGER PRIMARY KEY,
    arrival     INTEGER NOT NULL,   -- of the task that waits
    id          TEXT NOT NULL,      -- of the one that it waits for; '' while it is held open
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

-- Tasks that are over, of which those that wait for them have not heard.
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
