-- row: 62
-- where: file
-- expect: load
-- says: select must be a table
local t = { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end }
t.settings = t
t.select = 7
return policy(t)
