-- → waiting tasks, tasks set aside, age of the oldest waiting task in ms
SELECT count(*) FILTER (WHERE refused IS NULL), count(*) FILTER (WHERE refused IS NOT NULL),
       coalesce(CAST(unixepoch('subsec') * 1000 AS INTEGER) - min(added_at_ms) FILTER (WHERE refused IS NULL), 0)
FROM rushgate_outbox
