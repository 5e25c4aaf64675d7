-- What becomes of a task that is one too many.
ALTER TABLE queue ADD COLUMN overflow INTEGER NOT NULL DEFAULT 0;   -- 0 it is refused, 1 dropped, 2 the oldest is dropped
ALTER TABLE queue ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;    -- tasks, so far

-- A task may give way to a newcomer, in a queue that drops its oldest.
ALTER TABLE task ADD COLUMN gives_way INTEGER NOT NULL DEFAULT 0;
CREATE INDEX task_oldest ON task (queue, first_us, id) WHERE claim = 0 AND gives_way = 1;
