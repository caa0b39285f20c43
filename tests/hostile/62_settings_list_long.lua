-- row: 62
-- where: file
-- expect: load
-- says: more than 256 items
local t = {}
for i = 1, 50000 do t[i] = 1 end
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  settings = { x = { type = 'list', of = 'integer', default = t } } }
