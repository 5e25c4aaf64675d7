-- $1 sale, $2 SKUs' names, $3 totals, $4 limits per buyer → name, id, limit. A total never shrinks, and the first
-- limit is kept.
INSERT INTO sku (sale, name, total, per_buyer)
SELECT $1, name, total, per_buyer
FROM unnest($2::text[], $3::integer[], $4::integer[]) AS told (name, total, per_buyer)
ON CONFLICT (sale, name) DO UPDATE SET total = greatest(sku.total, excluded.total)
RETURNING name, id, per_buyer
