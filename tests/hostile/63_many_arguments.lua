-- row: 0
-- where: pod
-- expect: memory instructions cpu
local function f(n, ...)
  if n == 0 then return math.max(...) end
  return f(n - 1, n, ...)
end
return f(100000)
