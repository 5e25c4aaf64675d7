-- $1 name, $2 generation, $3 now in µs → id. A generation never goes back.
INSERT INTO sale (name, generation, opened_at_us) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET generation = greatest(sale.generation, excluded.generation)
RETURNING id
