-- Key groups and limits.
ALTER TABLE queue ADD COLUMN places INTEGER NOT NULL DEFAULT 0;     -- latest place assigned
ALTER TABLE queue ADD COLUMN concurrency INTEGER;
ALTER TABLE queue ADD COLUMN rate_n INTEGER;
ALTER TABLE queue ADD COLUMN rate_us INTEGER;
ALTER TABLE queue ADD COLUMN key_concurrency INTEGER;
ALTER TABLE queue ADD COLUMN key_rate_n INTEGER;
ALTER TABLE queue ADD COLUMN key_rate_us INTEGER;
ALTER TABLE queue ADD COLUMN key_fifo INTEGER NOT NULL DEFAULT 0;

ALTER TABLE newcomer ADD COLUMN key TEXT;
ALTER TABLE dead ADD COLUMN key TEXT;

-- A waiting task becomes available at `at_us`. Tasks with the same `at_us` are ordered by `seat`. A task with a key
-- has both only while it is the first of its key group and the key's limits allow it to run. Within the group, tasks
-- are ordered by `line_us` and `place`.
ALTER TABLE task ADD COLUMN key TEXT;
ALTER TABLE task ADD COLUMN asked_us INTEGER;   -- requested due time, of a task with a key
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
