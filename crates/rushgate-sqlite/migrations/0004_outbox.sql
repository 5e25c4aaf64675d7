-- Up to which number a queue has what an outbox in another database had for it.
CREATE TABLE relayed (
    queue  INTEGER NOT NULL,
    outbox TEXT NOT NULL,
    upto   INTEGER NOT NULL,
    PRIMARY KEY (queue, outbox)
) WITHOUT ROWID;
