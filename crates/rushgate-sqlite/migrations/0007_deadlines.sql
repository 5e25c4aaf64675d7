-- Deadline: from then on the task is never claimed. NULL: none.
ALTER TABLE task ADD COLUMN deadline_us INTEGER;
ALTER TABLE newcomer ADD COLUMN deadline_us INTEGER;
ALTER TABLE finished ADD COLUMN deadline_us INTEGER;
CREATE INDEX task_deadline ON task (queue, deadline_us, id) WHERE claim = 0 AND deadline_us IS NOT NULL;
