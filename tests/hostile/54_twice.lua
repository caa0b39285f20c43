-- row: 54
-- where: file
-- expect: load
-- says: called twice
local p = policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end }
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end }
