-- row: 26
-- where: pod
-- expect: memory
local s = 'x'
while true do s = s .. s end
