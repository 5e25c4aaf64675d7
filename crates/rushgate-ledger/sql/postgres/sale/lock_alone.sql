-- $1 sales, in order → microseconds waited. Exclusive lock of a sale: for stock changes, refusals, and a new
-- generation.
SELECT (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint
FROM (SELECT count(pg_advisory_xact_lock(hashtext('rushgate ' || current_schema()), sale))
      FROM unnest($1::integer[]) AS sale) AS locked
