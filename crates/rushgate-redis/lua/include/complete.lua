-- Completing claimed tasks.
-- include: queue

-- Completes the tasks of each new request, whose runs were fetched. If the width is 5, each has its end and its result;
-- otherwise it is done. Outcomes: 0 stale, 1 done, 2 requeued.
local function complete_each(q, once, width)
  local asked, runs, ids, leases, n = ARGV, q.runs.values, {}, {}, 0
  local is_limited, has_ends = q.concurrency or q.keep_n or q.linked, width == 5

  local function complete_loaded(id, how, result)
    local t = load(q, id)
    if promote(q, t, true) then return 2 end
    finish_task(q, t, now, has(t, CANCEL_ASKED) and END_CANCELLED or how, result, true)
    return 1
  end

  local function complete(id, number, at)
    local run = runs[id]
    if not run then return 0 end
    local claim, turn, attempts, flags = struct.unpack('>I7I1I2I1', run)
    if claim + turn ~= tonumber(number) or flags % 2 ~= LEASED then return 0 end
    local how = has_ends and tonumber(asked[at + 3]) or END_DONE
    -- Most runs have none of the flags from REPLACED upward, so the task need not be loaded.
    if is_limited or flags >= REPLACED then return complete_loaded(id, how, has_ends and asked[at + 4] or '') end
    if q.events_n then
      events.note(q, now, id, bit.band(flags, CANCEL_ASKED) > 0 and END_CANCELLED or how, attempts, claim + turn)
    end
    n = n + 1
    ids[n], leases[n], runs[id] = id, string.sub(run, 1, LEASE_BYTES) .. id, false
    return 1
  end

  local answers = answer_each(once, width, function(answer, at)
    answer[#answer + 1] = complete(asked[at + 1], asked[at + 2], at)
  end)
  in_chunks('ZREM', q.leases.key, leases)
  in_chunks('HDEL', q.records.key, ids)
  in_chunks('HDEL', q.runs.key, ids)
  return answers
end
