-- row: 13
-- where: pod
-- expect: ok
-- says: alive
local skip = fence.skip
local _ENV = {}
x = 1
return skip('alive')
