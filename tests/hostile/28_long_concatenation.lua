-- row: 28
-- where: pod
-- expect: instructions cpu
local s = 'abcde'
for i = 1, 18 do s = s .. s end
while true do local t = s .. 'a' end
