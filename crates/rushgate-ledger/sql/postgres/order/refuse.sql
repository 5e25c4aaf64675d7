-- $1 sale, $2 reservation, $3 generation, $4 why, $5 now in µs
INSERT INTO refusal (sale, reservation, generation, why, refused_at_us) VALUES ($1, $2, $3, $4, $5)
