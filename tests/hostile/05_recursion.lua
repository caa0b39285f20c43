-- row: 5
-- where: pod
-- expect: memory
local function f() return 1 + f() end
return f()
