-- row: 64
-- where: pod
-- expect: error
-- says: index is NaN
local t = {}
t[0/0] = 1
