-- ?1 sale → generation
SELECT generation FROM sale WHERE id = ?1
