-- row: 38
-- where: pod
-- expect: ok
-- says: alive
local t = {}
for i = 1, 500 do t[i] = i end
table.sort(t, function() return true end)
return fence.skip('alive')
