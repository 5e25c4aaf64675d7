-- Overflow policy: what happens to a new task when the queue is at capacity.
ALTER TABLE queue ADD COLUMN overflow INTEGER NOT NULL DEFAULT 0;   -- 0 refuse, 1 drop new, 2 drop oldest
ALTER TABLE queue ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;    -- number of dropped tasks

-- `gives_way`: whether the task may be dropped for a new one, in a queue that drops its oldest.
ALTER TABLE task ADD COLUMN gives_way INTEGER NOT NULL DEFAULT 0;
CREATE INDEX task_oldest ON task (queue, first_us, id) WHERE claim = 0 AND gives_way = 1;
