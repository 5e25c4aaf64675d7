-- $1 sale → the new generation. The caller has the sale to itself.
UPDATE sale SET generation = generation + 1 WHERE id = $1 RETURNING generation
