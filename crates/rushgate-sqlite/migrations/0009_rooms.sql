-- AUTOINCREMENT never reuses a number: the tickets of a closed room are deleted later, by its number.
CREATE TABLE room (
    no        INTEGER PRIMARY KEY AUTOINCREMENT,
    sale      TEXT NOT NULL UNIQUE,
    n         INTEGER NOT NULL,
    per_us    INTEGER NOT NULL,
    pass_us   INTEGER NOT NULL,
    draws     INTEGER NOT NULL,                -- whether the order is decided by a draw
    from_us   INTEGER,
    opened_us INTEGER NOT NULL,
    base      INTEGER NOT NULL DEFAULT 0,      -- positions served before `since_us`
    since_us  INTEGER,                         -- when the next position is served; NULL before a draw
    joined    INTEGER NOT NULL DEFAULT 0,
    admitted  INTEGER NOT NULL DEFAULT 0,
    secret    BLOB NOT NULL,
    entrants  INTEGER,
    beacon    TEXT
);

CREATE TABLE room_ticket (
    room     INTEGER NOT NULL,
    buyer    TEXT NOT NULL,
    serial   INTEGER NOT NULL,
    until_us INTEGER,                          -- when the admission token expires; NULL if none was issued
    PRIMARY KEY (room, buyer)
) WITHOUT ROWID;

-- Closed rooms whose tickets have not all been deleted.
CREATE TABLE closed_room (no INTEGER PRIMARY KEY);
