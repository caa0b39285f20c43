-- row: 7
-- where: pod
-- expect: load
-- says: unknown global 'pcall'
while true do pcall(function() while true do end end) end
