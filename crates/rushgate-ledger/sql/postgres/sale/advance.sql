-- $1 sale → the new generation. The caller holds the sale's exclusive lock.
UPDATE sale SET generation = generation + 1 WHERE id = $1 RETURNING generation
