-- row: 62
-- where: file
-- expect: memory instructions
local t = {}
for i = 1, 1000000 do t[i] = 1 end
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  settings = { x = { type = 'list', of = 'integer', default = t } } }
