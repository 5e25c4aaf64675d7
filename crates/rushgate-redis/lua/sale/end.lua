-- Ends a sale permanently.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
--
-- status  2 ended
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if s.status ~= '2' then
  s.status = '2'
  append(s, ENDED, nil, '')
  close_sale(s)
end
return tonumber(s.status)
