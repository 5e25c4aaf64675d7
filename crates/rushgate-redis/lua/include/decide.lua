-- Confirming and canceling holds.
-- include: sale
local function decide_each(s, ids, intent)
  local began, answers = false, {}
  fetch(s.holds, ids)
  for _, id in ipairs(ids) do
    local h = load_hold(s, id)
    local undecided = h and h.state == HELD
    if s.halted and (undecided or not h) then
      answers[#answers + 1] = { 4 }
    elseif not h then
      answers[#answers + 1] = { 0 }
    else
      if undecided then
        began = true
        decide(s, h, h.deadline <= now and 'expire' or intent)
      end
      local outcome = h.state == LAST[intent] and 1 or h.state == MIDDLE[intent] and 2 or 3
      answers[#answers + 1] = { outcome, read(s.holds, h.id) }
    end
  end
  if began then close_sale(s) end
  return answers
end
