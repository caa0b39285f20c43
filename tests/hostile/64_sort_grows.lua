-- row: 64
-- where: pod
-- expect: error
-- says: the comparator changed the list
local t = {}
for i = 1, 100 do t[i] = 100 - i end
table.sort(t, function(a, b) table.insert(t, 1) return a < b end)
return fence.skip('alive')
