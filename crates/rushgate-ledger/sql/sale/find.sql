-- ?1 sale's name → id
SELECT id FROM sale WHERE name = ?1
