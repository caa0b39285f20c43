-- row: 33
-- where: pod
-- expect: instructions
local s = 'abcde'
for i = 1, 17 do s = s .. s end
while true do s:contains('zz') end
