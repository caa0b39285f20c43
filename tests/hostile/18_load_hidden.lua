-- row: 18
-- where: pod
-- expect: error
-- says: unknown global 'load'
local name = 'lo' .. 'ad'
return _ENV[name]
