-- Completing claimed tasks.
-- include: queue

-- Outcomes: 0 stale, 1 done, 2 requeued.
local function complete(q, id, number, how, result)
  local run = read(q.runs, id)
  if not run then return 0 end
  local claim, turn, attempts, flags = struct.unpack('>I7I1I2I1', run)
  if claim + turn ~= tonumber(number) or flags % 2 ~= LEASED then return 0 end
  -- Most runs have none of the flags from REPLACED upward, so the task need not be loaded.
  if flags >= REPLACED or q.concurrency or q.keep_n or q.linked then
    local t = load(q, id)
    if promote(q, t, true) then return 2 end
    finish_task(q, t, now, has(t, CANCEL_ASKED) and END_CANCELLED or how, result, true)
    return 1
  end
  take_out(q.leases, string.sub(run, 1, LEASE_BYTES) .. id)
  if q.events_n then
    events.note(q, now, id, bit.band(flags, CANCEL_ASKED) > 0 and END_CANCELLED or how, attempts, claim + turn)
  end
  -- Nothing in this call reads the record any more, so it need not be known that it is gone.
  take_out(q.records, id)
  set_field(q.runs, id, false)
  return 1
end
