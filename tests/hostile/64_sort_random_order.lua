-- row: 64
-- where: pod
-- expect: ok
-- says: alive
local t, flip = {}, false
for i = 1, 200 do t[i] = i end
table.sort(t, function() flip = not flip return flip end)
return fence.skip('alive')
