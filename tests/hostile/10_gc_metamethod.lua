-- row: 10
-- where: pod
-- expect: load
-- says: unknown global 'setmetatable'
setmetatable({}, { __gc = function() while true do end end })
