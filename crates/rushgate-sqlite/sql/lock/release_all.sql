-- The first 8 bytes of a token are its client's ID.
-- name: held
SELECT name, token FROM lock WHERE token >= ?1 AND substr(token, 1, 8) = ?1 AND lease_until_us > ?2 ORDER BY name;

-- name: waiting
SELECT name, token FROM lock_waiter WHERE token >= ?1 AND substr(token, 1, 8) = ?1 ORDER BY name, ticket;
