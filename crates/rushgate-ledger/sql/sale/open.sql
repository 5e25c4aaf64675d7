-- ?1 name, ?2 generation, ?3 now in µs, ?4 specification or NULL → id. The generation never decreases, and the first
-- specification is kept.
INSERT INTO sale (name, generation, opened_at_us, spec) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE
SET generation = max(generation, excluded.generation), spec = coalesce(spec, excluded.spec)
RETURNING id
