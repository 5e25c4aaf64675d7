-- A room's number is never used again: what is left of a closed one is swept by it.
CREATE TABLE room (
    no        INTEGER PRIMARY KEY AUTOINCREMENT,
    sale      TEXT NOT NULL UNIQUE,
    n         INTEGER NOT NULL,
    per_us    INTEGER NOT NULL,
    pass_us   INTEGER NOT NULL,
    draws     INTEGER NOT NULL,                -- whether its order is drawn
    from_us   INTEGER,
    opened_us INTEGER NOT NULL,
    base      INTEGER NOT NULL DEFAULT 0,      -- places that were served before `since_us`
    since_us  INTEGER,                         -- when the next place is served; NULL before a draw
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
    until_us INTEGER,                          -- until when the pass holds; NULL if there was none
    PRIMARY KEY (room, buyer)
) WITHOUT ROWID;

-- Rooms whose tickets are still to be swept.
CREATE TABLE closed_room (no INTEGER PRIMARY KEY);
