-- row: 7
-- where: pod
-- expect: error
-- says: unknown global 'pcall'
local name = 'pc' .. 'all'
return _ENV[name]
