-- $1 sales, in order → microseconds waited. Shared lock of a sale, held by writers until the end of the transaction.
SELECT (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint
FROM (SELECT count(pg_advisory_xact_lock_shared(hashtext('rushgate ' || current_schema()), sale))
      FROM unnest($1::integer[]) AS sale) AS locked
