-- row: 62
-- where: pod
-- expect: error
-- says: not a table
local t = {}
t[1] = t
return fence.delete_pod(t)
