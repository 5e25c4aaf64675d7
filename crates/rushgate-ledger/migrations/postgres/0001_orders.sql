-- The ledger's tables. Their constraints, not the program, guarantee the invariants of a sale, for every program that
-- writes here and for any concurrent writers. Rows are never deleted: they are the record.
--
-- The schema differs from SQLite's because many transactions write concurrently. UNIQUE, CHECK and foreign keys
-- constrain single rows. Constraints across rows are checked by triggers after the statement, with the other rows
-- locked. Each check is a statement of its own, so it sees what was committed while it waited for the lock. An older
-- snapshot would not, so transactions must be READ COMMITTED. Every error names its constraint, which the program
-- parses.

CREATE TABLE sale (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text    NOT NULL UNIQUE,
    generation   bigint  NOT NULL,
    opened_at_us bigint  NOT NULL,
    -- Specification, as JSON without the secret. With the secret it can recreate a sale that the store lost.
    spec         text
);

-- A reader of this table can sign receipts and orders. It is separate so that reporting users need no access to it.
CREATE TABLE sale_secret (
    sale   integer PRIMARY KEY REFERENCES sale (id),
    secret bytea   NOT NULL CHECK (length(secret) = 16)
);

CREATE TABLE sku (
    id        integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sale      integer NOT NULL REFERENCES sale (id),
    name      text    NOT NULL,
    total     integer NOT NULL CHECK (total BETWEEN 1 AND 10000000),
    per_buyer integer NOT NULL CHECK (per_buyer BETWEEN 1 AND 10000),
    UNIQUE (sale, name),
    -- Parent key of order_unit, which ties an order's copy of the limit to this one.
    UNIQUE (id, sale, per_buyer)
);

-- Disjoint ranges of units. The key orders them by their end: the first range that ends at or after a unit either
-- contains it or lies above it.
CREATE TABLE withdrawn (
    sku   integer NOT NULL REFERENCES sku (id),
    first integer NOT NULL CHECK (first >= 1),
    last  integer NOT NULL CHECK (last >= first),
    CONSTRAINT withdrawn_twice PRIMARY KEY (sku, last)
);

-- The program allocates IDs before it writes, so that orders and units can be sent together.
CREATE SEQUENCE order_id;

CREATE TABLE orders (
    id             bigint  NOT NULL DEFAULT nextval('order_id') PRIMARY KEY,
    sale           integer NOT NULL REFERENCES sale (id),
    reservation    bytea   NOT NULL CHECK (length(reservation) = 16),
    buyer          text    NOT NULL,
    generation     bigint  NOT NULL,
    seq            bigint  NOT NULL,
    state          text    NOT NULL CHECK (state IN ('held', 'confirmed', 'cancelled', 'expired')),
    recorded_at_us bigint  NOT NULL,
    changed_at_us  bigint  NOT NULL,
    CONSTRAINT order_recorded UNIQUE (sale, reservation),
    CONSTRAINT sequence_reused UNIQUE (sale, generation, seq),
    -- Parent key of order_unit: no unit is recorded for another buyer.
    UNIQUE (id, sale, buyer)
);
ALTER SEQUENCE order_id OWNED BY orders.id;

CREATE TABLE order_unit (
    order_id  bigint  NOT NULL,
    sale      integer NOT NULL,
    buyer     text    NOT NULL,
    sku       integer NOT NULL,
    unit      integer NOT NULL CHECK (unit >= 1),
    -- Which of the buyer's slots this unit fills: 1 to per_buyer, each at most once.
    slot      integer,
    per_buyer integer NOT NULL,
    -- True while the order owns the unit; false once it was released.
    live      boolean NOT NULL,
    PRIMARY KEY (order_id, sku, unit),
    CONSTRAINT unit_of_order FOREIGN KEY (order_id, sale, buyer) REFERENCES orders (id, sale, buyer),
    CONSTRAINT unit_of_sku FOREIGN KEY (sku, sale, per_buyer) REFERENCES sku (id, sale, per_buyer),
    CONSTRAINT limit_reached CHECK (NOT live OR (slot IS NOT NULL AND slot BETWEEN 1 AND per_buyer))
);

-- A unit has at most one owner.
CREATE UNIQUE INDEX unit_taken ON order_unit (sku, unit) WHERE live;
-- A buyer's slot is filled at most once.
CREATE UNIQUE INDEX slot_taken ON order_unit (sku, buyer, slot) WHERE live;

-- Permanently refused entries. Two workers may deliver the same entry. Without this row, the second delivery could be
-- accepted after the first one reported the refusal to the store, because the unit was released in between.
CREATE TABLE refusal (
    sale          integer NOT NULL REFERENCES sale (id),
    reservation   bytea   NOT NULL CHECK (length(reservation) = 16),
    generation    bigint  NOT NULL,
    why           text    NOT NULL CHECK (why IN ('unit_taken', 'limit_reached')),
    refused_at_us bigint  NOT NULL,
    PRIMARY KEY (sale, reservation, generation)
);

CREATE FUNCTION refuse(constraint_name text, why text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = constraint_name,
        MESSAGE = constraint_name || ': ' || why;
END $$;

-- A trigger that always fails. Its arguments are the constraint's name and the reason.
CREATE FUNCTION refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM refuse(TG_ARGV[0], TG_ARGV[1]);
    RETURN NULL;
END $$;

CREATE FUNCTION must_see_commits() RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM refuse('isolation', 'write in READ COMMITTED; a snapshot of the past hides what was sold since');
    END IF;
END $$;

CREATE TRIGGER sale_goes_forward BEFORE UPDATE ON sale FOR EACH ROW
WHEN (NEW.generation < OLD.generation OR NEW.id <> OLD.id OR NEW.name <> OLD.name
      OR (OLD.spec IS NOT NULL AND NEW.spec IS DISTINCT FROM OLD.spec))
EXECUTE FUNCTION refuse_change('fixed', 'a sale keeps its name and specification, and its generation only grows');

CREATE TRIGGER sale_secret_stays BEFORE UPDATE ON sale_secret FOR EACH ROW
EXECUTE FUNCTION refuse_change('fixed', 'a sale keeps its secret');

CREATE TRIGGER sku_only_grows BEFORE UPDATE ON sku FOR EACH ROW
WHEN (NEW.total < OLD.total OR NEW.id <> OLD.id OR NEW.sale <> OLD.sale OR NEW.name <> OLD.name
      OR NEW.per_buyer <> OLD.per_buyer)
EXECUTE FUNCTION refuse_change('fixed', 'an SKU keeps its sale, name and limit, and its total only grows');

-- A transaction that adds a unit holds the SKU's row FOR KEY SHARE. FOR UPDATE here makes the two wait for each
-- other.
CREATE FUNCTION withdrawn_is_free() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM must_see_commits();
    PERFORM FROM sku WHERE id = ANY (ARRAY(SELECT sku FROM added)) ORDER BY id FOR UPDATE;
    IF EXISTS (SELECT FROM added WHERE last > (SELECT total FROM sku WHERE id = added.sku)) THEN
        PERFORM refuse('not_for_sale', 'a unit does not exist');
    END IF;
    IF EXISTS (SELECT FROM added
               WHERE (SELECT live FROM order_unit
                      WHERE sku = added.sku AND unit BETWEEN added.first AND added.last AND live LIMIT 1)) THEN
        PERFORM refuse('owned', 'a unit belongs to an order');
    END IF;
    -- A range that ends within the new one, or the next range after its end.
    IF EXISTS (SELECT FROM added
               WHERE (SELECT true FROM withdrawn
                      WHERE sku = added.sku AND last >= added.first AND last < added.last LIMIT 1)
                     OR (SELECT first FROM withdrawn
                         WHERE sku = added.sku AND last > added.last ORDER BY last LIMIT 1) <= added.last) THEN
        PERFORM refuse('withdrawn_twice', 'a unit was withdrawn before');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER withdrawn_is_free AFTER INSERT ON withdrawn
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION withdrawn_is_free();

-- A transaction that adds an order holds the sale's row FOR KEY SHARE; one that adds a refusal holds it FOR UPDATE.
CREATE FUNCTION order_not_refused() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM must_see_commits();
    PERFORM FROM sale WHERE id = ANY (ARRAY(SELECT DISTINCT sale FROM added)) ORDER BY id FOR KEY SHARE;
    IF EXISTS (SELECT FROM added
               WHERE (SELECT true FROM refusal
                      WHERE sale = added.sale AND reservation = added.reservation
                            AND generation = added.generation)) THEN
        PERFORM refuse('refused', 'the order was refused for good');
    END IF;
    -- A rebuild's snapshot stays valid: a store of an older generation adds nothing to it.
    IF EXISTS (SELECT FROM added WHERE generation < (SELECT generation FROM sale WHERE id = added.sale)) THEN
        PERFORM refuse('old_generation', 'the sale was rebuilt since');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER order_not_refused AFTER INSERT ON orders
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION order_not_refused();

CREATE FUNCTION refusal_not_recorded() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM must_see_commits();
    PERFORM FROM sale WHERE id = ANY (ARRAY(SELECT DISTINCT sale FROM added)) ORDER BY id FOR UPDATE;
    IF EXISTS (SELECT FROM added
               WHERE (SELECT true FROM orders
                      WHERE sale = added.sale AND reservation = added.reservation)) THEN
        PERFORM refuse('recorded', 'the order is recorded');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER refusal_not_recorded AFTER INSERT ON refusal
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION refusal_not_recorded();

CREATE TRIGGER order_moves_once BEFORE UPDATE ON orders FOR EACH ROW
WHEN (OLD.state <> 'held' OR NEW.id <> OLD.id OR NEW.sale <> OLD.sale OR NEW.reservation <> OLD.reservation
      OR NEW.buyer <> OLD.buyer OR NEW.generation <> OLD.generation OR NEW.seq <> OLD.seq)
EXECUTE FUNCTION refuse_change('fixed', 'only a held order changes, and only its state');

-- The statement that ends the order also releases its units, so no program can forget it.
CREATE FUNCTION order_gives_back() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM must_see_commits();
    UPDATE order_unit SET live = false
    WHERE order_id = ANY (ARRAY(SELECT id FROM changed WHERE state IN ('cancelled', 'expired'))) AND live;
    RETURN NULL;
END $$;
CREATE TRIGGER order_gives_back AFTER UPDATE ON orders
REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION order_gives_back();

-- An order of the current transaction is invisible to others, so it needs no lock.
CREATE FUNCTION unit_may_be_owned() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM must_see_commits();
    PERFORM FROM sku WHERE id = ANY (ARRAY(SELECT DISTINCT sku FROM added WHERE live)) ORDER BY id FOR KEY SHARE;
    IF EXISTS (SELECT FROM added WHERE live AND unit > (SELECT total FROM sku WHERE id = added.sku)) THEN
        PERFORM refuse('not_for_sale', 'the unit does not exist');
    END IF;
    IF EXISTS (SELECT FROM added
               WHERE live AND (SELECT first FROM withdrawn
                               WHERE sku = added.sku AND last >= added.unit ORDER BY last LIMIT 1) <= added.unit) THEN
        PERFORM refuse('withdrawn', 'the unit was withdrawn');
    END IF;
    PERFORM FROM orders
    WHERE id = ANY (ARRAY(SELECT order_id FROM added)) AND xmin <> pg_current_xact_id()::xid
    ORDER BY id FOR SHARE;
    IF EXISTS (SELECT FROM added
               WHERE live <> (SELECT state IN ('held', 'confirmed') FROM orders WHERE id = added.order_id)) THEN
        PERFORM refuse('fixed', 'a unit is live exactly as long as its order');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER unit_may_be_owned AFTER INSERT ON order_unit
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION unit_may_be_owned();

CREATE TRIGGER unit_only_dies BEFORE UPDATE ON order_unit FOR EACH ROW
WHEN (NOT (OLD.live AND NOT NEW.live) OR NEW.order_id <> OLD.order_id OR NEW.sale <> OLD.sale
      OR NEW.buyer <> OLD.buyer OR NEW.sku <> OLD.sku OR NEW.unit <> OLD.unit
      OR NEW.slot IS DISTINCT FROM OLD.slot OR NEW.per_buyer <> OLD.per_buyer)
EXECUTE FUNCTION refuse_change('fixed', 'only the end of its order returns a unit');

CREATE FUNCTION unit_dies_with_its_order() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM must_see_commits();
    IF EXISTS (SELECT FROM changed
               WHERE (SELECT state IN ('held', 'confirmed') FROM orders WHERE id = changed.order_id)) THEN
        PERFORM refuse('fixed', 'only the end of its order returns a unit');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER unit_dies_with_its_order AFTER UPDATE ON order_unit
REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION unit_dies_with_its_order();

CREATE TRIGGER withdrawn_stays BEFORE UPDATE ON withdrawn
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('fixed', 'a withdrawn unit stays withdrawn');
CREATE TRIGGER refusal_stays BEFORE UPDATE ON refusal
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('fixed', 'a refusal stays');

CREATE TRIGGER sale_kept BEFORE DELETE OR TRUNCATE ON sale
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('kept', 'rows are kept');
CREATE TRIGGER sku_kept BEFORE DELETE OR TRUNCATE ON sku
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('kept', 'rows are kept');
CREATE TRIGGER withdrawn_kept BEFORE DELETE OR TRUNCATE ON withdrawn
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('kept', 'rows are kept');
CREATE TRIGGER order_kept BEFORE DELETE OR TRUNCATE ON orders
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('kept', 'rows are kept');
CREATE TRIGGER unit_kept BEFORE DELETE OR TRUNCATE ON order_unit
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('kept', 'rows are kept');
CREATE TRIGGER refusal_kept BEFORE DELETE OR TRUNCATE ON refusal
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('kept', 'rows are kept');
