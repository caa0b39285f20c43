-- row: 27
-- where: pod
-- expect: memory
local t = {}
for i = 1, 1e9 do t[i] = function() return i end end
