-- row: 34
-- where: pod
-- expect: memory
local s = 'a,'
for i = 1, 18 do s = s .. s end
local t = s:split(',')
return fence.skip('alive')
