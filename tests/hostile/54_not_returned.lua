-- row: 54
-- where: file
-- expect: load
-- says: must end with return policy
local p = policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end }
