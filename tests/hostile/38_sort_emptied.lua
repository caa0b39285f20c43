-- row: 38
-- where: pod
-- expect: error
-- says: the comparator changed the list
local t = { 5, 4, 3, 2, 1 }
table.sort(t, function() for i = 1, 5 do t[i] = nil end return true end)
