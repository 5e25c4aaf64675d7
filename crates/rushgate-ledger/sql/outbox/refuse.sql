-- Sets a task aside. ?1 position, ?2 why
UPDATE rushgate_outbox SET refused = ?2 WHERE position = ?1
