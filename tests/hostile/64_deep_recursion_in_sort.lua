-- row: 64
-- where: pod
-- expect: error
-- says: C stack overflow
local function f(n) local t = { 2, 1 } table.sort(t, function(a, b) f(n + 1) return a < b end) end
f(1)
