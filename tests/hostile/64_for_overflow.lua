-- row: 64
-- where: pod
-- expect: ok
-- says: alive 1
local n = 0
for i = math.maxinteger, math.maxinteger do n = n + 1 end
return fence.skip('alive ' .. n)
