-- $1 sales → sale, generation
SELECT id, generation FROM sale WHERE id = ANY ($1)
