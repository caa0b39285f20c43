-- row: 64
-- where: pod
-- expect: error
-- says: index is nil
local t = {}
t[nil] = 1
