-- row: 8
-- where: pod
-- expect: load
-- says: unknown global 'xpcall'
xpcall(function() error('x') end, function() while true do end end)
