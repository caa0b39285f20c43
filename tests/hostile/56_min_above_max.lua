-- row: 56
-- where: file
-- expect: load
-- says: min above its max
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  settings = { x = { type = 'integer', min = 2, max = 1, default = 1 } } }
