-- $1 sale → reservation, generation, why
SELECT reservation, generation, why FROM refusal WHERE sale = $1 ORDER BY reservation, generation
