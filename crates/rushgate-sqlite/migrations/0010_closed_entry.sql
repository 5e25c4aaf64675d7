-- When a room's entry was closed for its draw: `entrants` is fixed from then on. NULL in a room that was drawn before entries
-- were closed.
ALTER TABLE room ADD COLUMN closed_us INTEGER;
