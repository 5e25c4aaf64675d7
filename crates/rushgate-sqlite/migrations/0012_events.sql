-- Events of a queue's tasks. `events`: number of events to keep, NULL for none. `event_last`: number of the latest
-- event.
ALTER TABLE queue ADD COLUMN events INTEGER;
ALTER TABLE queue ADD COLUMN event_last INTEGER NOT NULL DEFAULT 0;

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
    text    TEXT,               -- the worker, or why it failed
    PRIMARY KEY (queue, seq)
) WITHOUT ROWID;
