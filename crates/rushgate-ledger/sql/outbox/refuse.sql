-- ?1 position, ?2 why. Sets a task aside.
UPDATE rushgate_outbox SET refused = ?2 WHERE position = ?1
