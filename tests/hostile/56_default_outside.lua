-- row: 56
-- where: file
-- expect: load
-- says: not one of: a
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  settings = { x = { type = 'enum', values = { 'a' }, default = 'b' } } }
