-- row: 9
-- where: pod
-- expect: load
-- says: unknown global 'coroutine'
coroutine.wrap(function() while true do end end)()
