-- row: 10
-- where: pod
-- expect: error
-- says: unknown global 'setmetatable'
local name = 'se' .. 'tmetatable'
return _ENV[name]
