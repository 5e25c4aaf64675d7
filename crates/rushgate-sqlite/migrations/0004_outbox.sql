-- The highest task number that a queue has from each outbox.
CREATE TABLE relayed (
    queue  INTEGER NOT NULL,
    outbox TEXT NOT NULL,
    upto   INTEGER NOT NULL,
    PRIMARY KEY (queue, outbox)
) WITHOUT ROWID;
