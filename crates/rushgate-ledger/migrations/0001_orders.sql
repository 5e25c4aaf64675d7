-- The ledger's tables. Their constraints, not the program, guarantee the invariants of a sale, for every program that
-- writes here. Rows are never deleted: they are the record.
--
-- The partial UNIQUE indexes, CHECKs and foreign keys are the same on Postgres; the triggers are plpgsql functions
-- there. SQLite's RAISE returns only a message, so each message begins with a word that the program parses.

CREATE TABLE sale (
    id           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE,
    generation   INTEGER NOT NULL,
    opened_at_us INTEGER NOT NULL,
    -- Specification, as JSON without the secret. With the secret it can recreate a sale that the store lost.
    spec         TEXT
) STRICT;

-- A reader of this table can sign receipts and orders. It is separate so that reporting users need no access to it.
CREATE TABLE sale_secret (
    sale   INTEGER PRIMARY KEY REFERENCES sale (id),
    secret BLOB    NOT NULL CHECK (length(secret) = 16)
) STRICT;

CREATE TABLE sku (
    id        INTEGER PRIMARY KEY,
    sale      INTEGER NOT NULL REFERENCES sale (id),
    name      TEXT    NOT NULL,
    total     INTEGER NOT NULL CHECK (total BETWEEN 1 AND 10000000),
    per_buyer INTEGER NOT NULL CHECK (per_buyer BETWEEN 1 AND 10000),
    UNIQUE (sale, name),
    -- Parent key of order_unit, which ties an order's copy of the limit to this one.
    UNIQUE (id, sale, per_buyer)
) STRICT;

-- Disjoint ranges of units. The key orders them by their end: the first range that ends at or after a unit either
-- contains it or lies above it.
CREATE TABLE withdrawn (
    sku   INTEGER NOT NULL REFERENCES sku (id),
    first INTEGER NOT NULL CHECK (first >= 1),
    last  INTEGER NOT NULL CHECK (last >= first),
    PRIMARY KEY (sku, last)
) STRICT, WITHOUT ROWID;

CREATE TABLE orders (
    id             INTEGER PRIMARY KEY,
    sale           INTEGER NOT NULL REFERENCES sale (id),
    reservation    BLOB    NOT NULL CHECK (length(reservation) = 16),
    buyer          TEXT    NOT NULL,
    generation     INTEGER NOT NULL,
    seq            INTEGER NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('held', 'confirmed', 'cancelled', 'expired')),
    recorded_at_us INTEGER NOT NULL,
    changed_at_us  INTEGER NOT NULL,
    UNIQUE (sale, reservation),
    UNIQUE (sale, generation, seq),
    -- Parent key of order_unit: no unit is recorded for another buyer.
    UNIQUE (id, sale, buyer)
) STRICT;

CREATE TABLE order_unit (
    order_id  INTEGER NOT NULL,
    sale      INTEGER NOT NULL,
    buyer     TEXT    NOT NULL,
    sku       INTEGER NOT NULL,
    unit      INTEGER NOT NULL CHECK (unit >= 1),
    -- Which of the buyer's slots this unit fills: 1 to per_buyer, each at most once.
    slot      INTEGER,
    per_buyer INTEGER NOT NULL,
    -- 1 while the order owns the unit; 0 once it was released.
    live      INTEGER NOT NULL CHECK (live IN (0, 1)),
    PRIMARY KEY (order_id, sku, unit),
    FOREIGN KEY (order_id, sale, buyer) REFERENCES orders (id, sale, buyer),
    FOREIGN KEY (sku, sale, per_buyer) REFERENCES sku (id, sale, per_buyer),
    CONSTRAINT limit_reached CHECK (live = 0 OR (slot IS NOT NULL AND slot BETWEEN 1 AND per_buyer))
) STRICT, WITHOUT ROWID;

-- A unit has at most one owner.
CREATE UNIQUE INDEX unit_taken ON order_unit (sku, unit) WHERE live = 1;
-- A buyer's slot is filled at most once.
CREATE UNIQUE INDEX slot_taken ON order_unit (sku, buyer, slot) WHERE live = 1;

-- Permanently refused entries. Two workers may deliver the same entry. Without this row, the second delivery could be
-- accepted after the first one reported the refusal to the store, because the unit was released in between.
CREATE TABLE refusal (
    sale          INTEGER NOT NULL REFERENCES sale (id),
    reservation   BLOB    NOT NULL CHECK (length(reservation) = 16),
    generation    INTEGER NOT NULL,
    why           TEXT    NOT NULL CHECK (why IN ('unit_taken', 'limit_reached')),
    refused_at_us INTEGER NOT NULL,
    PRIMARY KEY (sale, reservation, generation)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER sale_goes_forward BEFORE UPDATE ON sale
WHEN NEW.generation < OLD.generation OR NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name
     OR (OLD.spec IS NOT NULL AND NEW.spec IS NOT OLD.spec)
BEGIN
    SELECT RAISE(ABORT, 'fixed: a sale keeps its name and specification, and its generation only grows');
END;

CREATE TRIGGER sale_secret_stays BEFORE UPDATE ON sale_secret
BEGIN
    SELECT RAISE(ABORT, 'fixed: a sale keeps its secret');
END;

CREATE TRIGGER sku_only_grows BEFORE UPDATE ON sku
WHEN NEW.total < OLD.total OR NEW.id IS NOT OLD.id OR NEW.sale IS NOT OLD.sale OR NEW.name IS NOT OLD.name
     OR NEW.per_buyer IS NOT OLD.per_buyer
BEGIN
    SELECT RAISE(ABORT, 'fixed: an SKU keeps its sale, name and limit, and its total only grows');
END;

CREATE TRIGGER withdrawn_is_free BEFORE INSERT ON withdrawn
BEGIN
    SELECT RAISE(ABORT, 'not_for_sale: a unit does not exist')
    WHERE NEW.last > (SELECT total FROM sku WHERE id = NEW.sku);
    SELECT RAISE(ABORT, 'owned: a unit belongs to an order')
    WHERE EXISTS (SELECT 1 FROM order_unit WHERE sku = NEW.sku AND unit BETWEEN NEW.first AND NEW.last AND live = 1);
    SELECT RAISE(ABORT, 'withdrawn_twice: a unit was withdrawn before')
    WHERE (SELECT first FROM withdrawn WHERE sku = NEW.sku AND last >= NEW.first ORDER BY last LIMIT 1) <= NEW.last;
END;

CREATE TRIGGER order_not_refused BEFORE INSERT ON orders
WHEN EXISTS (SELECT 1 FROM refusal
             WHERE sale = NEW.sale AND reservation = NEW.reservation AND generation = NEW.generation)
BEGIN
    SELECT RAISE(ABORT, 'refused: the order was refused for good');
END;

-- A rebuild's snapshot stays valid: a store of an older generation adds nothing to it.
CREATE TRIGGER order_of_this_generation BEFORE INSERT ON orders
WHEN NEW.generation < (SELECT generation FROM sale WHERE id = NEW.sale)
BEGIN
    SELECT RAISE(ABORT, 'old_generation: the sale was rebuilt since');
END;

CREATE TRIGGER refusal_not_recorded BEFORE INSERT ON refusal
WHEN EXISTS (SELECT 1 FROM orders WHERE sale = NEW.sale AND reservation = NEW.reservation)
BEGIN
    SELECT RAISE(ABORT, 'recorded: the order is recorded');
END;

CREATE TRIGGER order_moves_once BEFORE UPDATE ON orders
WHEN OLD.state <> 'held' OR NEW.id IS NOT OLD.id OR NEW.sale IS NOT OLD.sale
     OR NEW.reservation IS NOT OLD.reservation OR NEW.buyer IS NOT OLD.buyer
     OR NEW.generation IS NOT OLD.generation OR NEW.seq IS NOT OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'fixed: only a held order changes, and only its state');
END;

-- The statement that ends the order also releases its units, so no program can forget it.
CREATE TRIGGER order_gives_back AFTER UPDATE OF state ON orders
WHEN NEW.state IN ('cancelled', 'expired')
BEGIN
    UPDATE order_unit SET live = 0 WHERE order_id = NEW.id AND live = 1;
END;

CREATE TRIGGER unit_is_for_sale BEFORE INSERT ON order_unit
WHEN NEW.live = 1
BEGIN
    SELECT RAISE(ABORT, 'not_for_sale: the unit does not exist')
    WHERE NEW.unit > (SELECT total FROM sku WHERE id = NEW.sku);
    SELECT RAISE(ABORT, 'withdrawn: the unit was withdrawn')
    WHERE (SELECT first FROM withdrawn WHERE sku = NEW.sku AND last >= NEW.unit ORDER BY last LIMIT 1) <= NEW.unit;
END;

CREATE TRIGGER unit_lives_with_its_order BEFORE INSERT ON order_unit
WHEN NEW.live <> (SELECT state IN ('held', 'confirmed') FROM orders WHERE id = NEW.order_id)
BEGIN
    SELECT RAISE(ABORT, 'fixed: a unit is live exactly as long as its order');
END;

CREATE TRIGGER unit_dies_with_its_order BEFORE UPDATE ON order_unit
WHEN NOT (OLD.live = 1 AND NEW.live = 0
          AND (SELECT state NOT IN ('held', 'confirmed') FROM orders WHERE id = OLD.order_id))
     OR NEW.order_id IS NOT OLD.order_id OR NEW.sale IS NOT OLD.sale OR NEW.buyer IS NOT OLD.buyer
     OR NEW.sku IS NOT OLD.sku OR NEW.unit IS NOT OLD.unit OR NEW.slot IS NOT OLD.slot
     OR NEW.per_buyer IS NOT OLD.per_buyer
BEGIN
    SELECT RAISE(ABORT, 'fixed: only the end of its order returns a unit');
END;

CREATE TRIGGER withdrawn_stays BEFORE UPDATE ON withdrawn
BEGIN SELECT RAISE(ABORT, 'fixed: a withdrawn unit stays withdrawn'); END;
CREATE TRIGGER refusal_stays BEFORE UPDATE ON refusal
BEGIN SELECT RAISE(ABORT, 'fixed: a refusal stays'); END;

-- With recursive_triggers on, these also prevent INSERT OR REPLACE.
CREATE TRIGGER sale_kept BEFORE DELETE ON sale
BEGIN SELECT RAISE(ABORT, 'fixed: rows are kept'); END;
CREATE TRIGGER sku_kept BEFORE DELETE ON sku
BEGIN SELECT RAISE(ABORT, 'fixed: rows are kept'); END;
CREATE TRIGGER withdrawn_kept BEFORE DELETE ON withdrawn
BEGIN SELECT RAISE(ABORT, 'fixed: rows are kept'); END;
CREATE TRIGGER order_kept BEFORE DELETE ON orders
BEGIN SELECT RAISE(ABORT, 'fixed: rows are kept'); END;
CREATE TRIGGER unit_kept BEFORE DELETE ON order_unit
BEGIN SELECT RAISE(ABORT, 'fixed: rows are kept'); END;
CREATE TRIGGER refusal_kept BEFORE DELETE ON refusal
BEGIN SELECT RAISE(ABORT, 'fixed: rows are kept'); END;
