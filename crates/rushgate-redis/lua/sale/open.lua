-- Opens a sale.
--
-- KEYS[1-8]  the sale
-- ARGV[1]    secret: 16 bytes
--
-- status  0 created, 1 open, 2 ended
-- include: now
-- include: sale
local s = sale_keys(1, ARGV[1])
if not s then return MISSING end
if s.status == '0' then
  s.status = '1'
  append(s, OPENED, nil, '')
  close_sale(s)
end
return tonumber(s.status)
