-- row: 12
-- where: pod
-- expect: ok
-- says: alive
local x <close> = nil
return fence.skip('alive')
