-- ?1 name → the new generation
UPDATE sale SET generation = generation + 1 WHERE name = ?1 RETURNING generation
