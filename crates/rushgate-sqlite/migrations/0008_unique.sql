-- Until when ids are not taken again, whether their tasks are live or not.
CREATE TABLE unique_id (
    queue    INTEGER NOT NULL,
    id       TEXT NOT NULL,
    until_us INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX unique_id_until ON unique_id (until_us);
