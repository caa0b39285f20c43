-- row: 32
-- where: pod
-- expect: instructions
local s = 'a'
for i = 1, 18 do s = s .. s end
s:glob('*' .. s .. 'b' .. s)
while true do s:glob('*' .. s:sub(1, 1000) .. 'b*') end
