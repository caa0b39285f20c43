-- row: 29
-- where: pod
-- expect: cpu instructions
local a = 'abcde'
for i = 1, 17 do a = a .. a end
local b = a .. 'x'
a = a .. 'y'
while true do local c = a == b end
