-- $1 ids, $2 sales, $3 reservations, $4 buyers, $5 generations, $6 seqs, $7 states, $8 now in µs. Skips orders that
-- another transaction recorded meanwhile; the caller checks the row count.
INSERT INTO orders (id, sale, reservation, buyer, generation, seq, state, recorded_at_us, changed_at_us)
SELECT id, sale, reservation, buyer, generation, seq, state, $8, $8
FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[], $7::text[])
     AS new (id, sale, reservation, buyer, generation, seq, state)
ON CONFLICT (sale, reservation) DO NOTHING
