-- row: 37
-- where: pod
-- expect: error
-- says: a list has at most 262144
local t = {}
for i = 1, 5 do t[i] = i end
t[8] = 8
t[9] = 9
local k = 16
while k > 0 and k <= 1 << 62 do t[k] = k; k = k * 2 end
table.concat(t)
