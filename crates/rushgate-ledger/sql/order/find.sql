-- ?1 sale, ?2 reservation → id, buyer, state
SELECT id, buyer, state FROM orders WHERE sale = ?1 AND reservation = ?2
