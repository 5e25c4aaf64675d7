-- The outbox: tasks that transactions of the application's own database enqueue. A transaction inserts rows here,
-- directly or with enqueue(). Once it has committed, the relay moves them into their queues and deletes them.
CREATE TABLE outbox (
    -- The order in which the tasks of a queue are moved, among those whose transactions have committed.
    position     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue        text   NOT NULL,
    id           text   NOT NULL,
    payload      bytea  NOT NULL,
    content_type text   NOT NULL DEFAULT 'application/json',
    kind         text,
    -- Due time, in milliseconds since 1970. NULL: due at once.
    due_at_ms    bigint,
    -- 0 (first) to 9 (last). NULL: 5.
    priority     integer,
    max_attempts integer,
    key          text,
    -- What happens if the ID is live: keep, replace, earliest, or debounce with max_wait_ms.
    on_duplicate text   NOT NULL DEFAULT 'keep',
    max_wait_ms  bigint,
    traceparent  text,
    added_at_ms  bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    -- Why the task cannot be moved. Such a task is set aside and does not block others.
    refused      text
);
CREATE INDEX outbox_waiting ON outbox (queue, position) WHERE refused IS NULL;
CREATE INDEX outbox_refused ON outbox (position) WHERE refused IS NOT NULL;

-- Batches under way, written before they are sent so that a repeated delivery uses the same numbers. The tasks at
-- these positions have consecutive numbers from `first` on.
CREATE TABLE outbox_batch (
    queue     text     PRIMARY KEY,
    first     bigint   NOT NULL,
    positions bigint[] NOT NULL
);

-- The outbox's ID in stores, its location, and the last task number assigned. A copy of the database has another
-- location and gets a new ID.
CREATE TABLE outbox_state (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    id   text    NOT NULL,
    home text    NOT NULL,
    last bigint  NOT NULL
);

-- Inserts a task. A role with USAGE on the schema may call it without rights to the table.
CREATE FUNCTION enqueue(
    queue text, id text, payload jsonb DEFAULT 'null', kind text DEFAULT NULL, delay interval DEFAULT NULL,
    priority integer DEFAULT NULL, max_attempts integer DEFAULT NULL, key text DEFAULT NULL,
    on_duplicate text DEFAULT 'keep', max_wait interval DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    INSERT INTO outbox (queue, id, payload, kind, due_at_ms, priority, max_attempts, key, on_duplicate, max_wait_ms,
                        traceparent)
    VALUES ($1, $2, convert_to($3::text, 'UTF8'), $4, (extract(epoch FROM clock_timestamp() + $5) * 1000)::bigint,
            $6, $7, $8, $9, (extract(epoch FROM $10) * 1000)::bigint, $11)
    RETURNING position
$$;

-- Wakes the relay when the transaction commits. A transaction sends one notification, however many rows it inserts.
CREATE FUNCTION outbox_wakes_the_relay() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('rushgate_outbox_' || md5(TG_TABLE_SCHEMA), '');
    RETURN NULL;
END $$;
CREATE TRIGGER outbox_wakes_the_relay AFTER INSERT ON outbox
FOR EACH STATEMENT EXECUTE FUNCTION outbox_wakes_the_relay();
CREATE TRIGGER outbox_wakes_the_relay_again AFTER UPDATE OF refused ON outbox
FOR EACH ROW WHEN (OLD.refused IS NOT NULL AND NEW.refused IS NULL) EXECUTE FUNCTION outbox_wakes_the_relay();
