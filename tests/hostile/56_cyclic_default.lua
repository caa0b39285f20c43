-- row: 56
-- where: file
-- expect: load
-- says: default[1] must be a text
local d = {}
d[1] = d
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  settings = { x = { type = 'list', of = 'string', default = d } } }
