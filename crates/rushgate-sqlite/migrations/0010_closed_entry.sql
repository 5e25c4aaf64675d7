-- When a room's entry was closed for its draw; `entrants` is fixed from then on. NULL for rooms drawn by versions
-- that did not close the entry.
ALTER TABLE room ADD COLUMN closed_us INTEGER;
