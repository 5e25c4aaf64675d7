-- ?1 order, ?2 sale, ?3 buyer, ?4 SKU, ?5 unit, ?6 slot (NULL if not live), ?7 limit per buyer, ?8 live
INSERT INTO order_unit (order_id, sale, buyer, sku, unit, slot, per_buyer, live)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
