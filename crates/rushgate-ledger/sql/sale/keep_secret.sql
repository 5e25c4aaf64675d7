-- ?1 sale, ?2 secret. The first secret is kept.
INSERT INTO sale_secret (sale, secret) VALUES (?1, ?2) ON CONFLICT (sale) DO NOTHING
