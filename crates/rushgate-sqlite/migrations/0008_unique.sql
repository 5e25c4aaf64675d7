-- Uniqueness windows: until `until_us` the ID is not accepted again, whether or not its task is live.
CREATE TABLE unique_id (
    queue    INTEGER NOT NULL,
    id       TEXT NOT NULL,
    until_us INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX unique_id_until ON unique_id (until_us);
