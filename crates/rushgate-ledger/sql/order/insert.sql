-- ?1 sale, ?2 reservation, ?3 buyer, ?4 generation, ?5 seq, ?6 state, ?7 now in µs
INSERT INTO orders (sale, reservation, buyer, generation, seq, state, recorded_at_us, changed_at_us)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
