-- $1 names → name, id
SELECT name, id FROM sale WHERE name = ANY ($1)
