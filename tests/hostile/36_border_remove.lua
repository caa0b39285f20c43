-- row: 36
-- where: pod
-- expect: instructions
local t = {}
for i = 1, 5 do t[i] = i end
t[8] = 8
t[9] = 9
local k = 16
while k > 0 and k <= 1 << 62 do t[k] = k; k = k * 2 end
table.remove(t, 1)
