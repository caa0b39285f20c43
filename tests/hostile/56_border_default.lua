-- row: 56
-- where: file
-- expect: load
-- says: more than 256 items
local t = {}
for i = 1, 5 do t[i] = i end
t[8] = 8
t[9] = 9
local k = 16
while k > 0 and k <= 1 << 62 do t[k] = k; k = k * 2 end
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  settings = { x = { type = 'list', of = 'integer', default = t } } }
