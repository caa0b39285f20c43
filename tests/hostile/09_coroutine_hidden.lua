-- row: 9
-- where: pod
-- expect: error
-- says: unknown global 'coroutine'
local name = 'co' .. 'routine'
return _ENV[name]
