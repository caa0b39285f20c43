-- row: 6
-- where: pod
-- expect: error instructions
-- says: stack overflow
local function f()
  table.sort({ 2, 1 }, function() f() return false end)
end
f()
