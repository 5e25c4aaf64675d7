-- Lines of tasks with a key, and limits.
ALTER TABLE queue ADD COLUMN places INTEGER NOT NULL DEFAULT 0;     -- the latest given
ALTER TABLE queue ADD COLUMN concurrency INTEGER;
ALTER TABLE queue ADD COLUMN rate_n INTEGER;
ALTER TABLE queue ADD COLUMN rate_us INTEGER;
ALTER TABLE queue ADD COLUMN key_concurrency INTEGER;
ALTER TABLE queue ADD COLUMN key_rate_n INTEGER;
ALTER TABLE queue ADD COLUMN key_rate_us INTEGER;
ALTER TABLE queue ADD COLUMN key_fifo INTEGER NOT NULL DEFAULT 0;

ALTER TABLE newcomer ADD COLUMN key TEXT;
ALTER TABLE dead ADD COLUMN key TEXT;

-- A task that waits may be given out from `at_us` on, in the order of `seat` among those of the same moment. A task with a
-- key has neither but while it is the first of its line and its key has room; it stands there by `line_us` and `place`.
ALTER TABLE task ADD COLUMN key TEXT;
ALTER TABLE task ADD COLUMN asked_us INTEGER;   -- when it was to be due, of a task with a key
ALTER TABLE task ADD COLUMN line_us INTEGER;
ALTER TABLE task ADD COLUMN place INTEGER;
ALTER TABLE task ADD COLUMN at_us INTEGER;
ALTER TABLE task ADD COLUMN seat INTEGER;
UPDATE task SET at_us = due_us, seat = arrival;
UPDATE queue SET places = (SELECT ifnull(max(arrival), 0) FROM task);

DROP INDEX task_due;
CREATE INDEX task_due ON task (queue, priority, at_us, seat) WHERE claim = 0 AND at_us IS NOT NULL;
CREATE INDEX task_line ON task (queue, key, priority, line_us, place) WHERE claim = 0 AND key IS NOT NULL;
CREATE INDEX task_run ON task (queue, key) WHERE claim > 0 AND key IS NOT NULL;

CREATE TABLE line (
    queue    INTEGER NOT NULL,
    key      TEXT NOT NULL,
    priority INTEGER NOT NULL,
    turn_us  INTEGER NOT NULL,   -- when its last task was given out
    place    INTEGER NOT NULL,   -- when it arrived: as it began, and anew with each turn
    first    INTEGER,            -- the arrival of the task that was seated last
    PRIMARY KEY (queue, key, priority)
) WITHOUT ROWID;

-- When tasks were given out, where there is a rate. `per_key`: 0 for the queue's rate, 1 for its keys'.
CREATE TABLE start (
    no      INTEGER PRIMARY KEY,
    queue   INTEGER NOT NULL,
    per_key INTEGER NOT NULL,
    key     TEXT NOT NULL,
    at_us   INTEGER NOT NULL
);
CREATE INDEX start_key ON start (queue, per_key, key, at_us);
CREATE INDEX start_at ON start (queue, per_key, at_us);
