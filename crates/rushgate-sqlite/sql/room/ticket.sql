-- name: load
SELECT serial, until_us FROM room_ticket WHERE room = ?1 AND buyer = ?2;

-- name: store
INSERT OR REPLACE INTO room_ticket (room, buyer, serial, until_us) VALUES (?1, ?2, ?3, ?4);
