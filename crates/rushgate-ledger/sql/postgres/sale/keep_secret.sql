-- $1 sale, $2 secret. The first one stays.
INSERT INTO sale_secret (sale, secret) VALUES ($1, $2) ON CONFLICT (sale) DO NOTHING
