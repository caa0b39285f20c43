-- row: 18
-- where: pod
-- expect: error
-- says: unknown global 'debug'
local name = 'de' .. 'bug'
return _ENV[name]
