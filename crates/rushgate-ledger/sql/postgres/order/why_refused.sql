-- $1 sale, $2 reservation, $3 generation → why
SELECT why FROM refusal WHERE sale = $1 AND reservation = $2 AND generation = $3
