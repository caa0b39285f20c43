-- row: 32
-- where: pod
-- expect: ok
-- says: false
local s = 'a'
for i = 1, 15 do s = s .. s end
local hit = s:glob('*a*a*a*a*a*a*a*b')
return fence.skip(tostring(hit))
