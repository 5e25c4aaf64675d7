-- include: queue
-- Changes the due time of a task that waits, and nothing else.
local function move(q, t, due)
  q.revision, q.turn = q.revision + 1, nil
  -- A task with a key may be blocked although it is due.
  local was_due = not t.key and t.due <= now
  detach(q, t)
  t.revision, t.due, t.asked = q.revision, due, due
  store_record(q, t, body_of(t.record))
  if t.ran then store_run(q, t) end
  events.note(q, now, t.id, events.replaced, 0, due)
  stand(q, t, not was_due)
end
