-- row: 64
-- where: pod
-- expect: cpu
local function f(...) return f(..., ...) end
return f(1, 2)
