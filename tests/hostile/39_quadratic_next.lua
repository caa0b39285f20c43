-- row: 39
-- where: pod
-- expect: cpu instructions
local t = {}
for i = 1, 30000 do t['k' .. i] = true end
local last
for k in next, t do t[k] = nil end
t.last = nil
while true do next(t) end
