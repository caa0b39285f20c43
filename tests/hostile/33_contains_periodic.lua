-- row: 33
-- where: pod
-- expect: instructions
local s = 'a'
for i = 1, 19 do s = s .. s end
local w = s:sub(1, 200000) .. 'b'
while true do s:contains(w) end
