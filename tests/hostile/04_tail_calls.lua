-- row: 4
-- where: pod
-- expect: instructions
local function f() return f() end
return f()
