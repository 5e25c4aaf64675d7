-- name: room
DELETE FROM room WHERE sale = ?1 RETURNING no;

-- name: enter
INSERT INTO closed_room (no) VALUES (?1);

-- name: next
SELECT no FROM closed_room LIMIT 1;

-- name: tickets
DELETE FROM room_ticket
WHERE room = ?1 AND buyer IN (SELECT buyer FROM room_ticket WHERE room = ?1 LIMIT ?2);

-- name: forget
DELETE FROM closed_room WHERE no = ?1;
