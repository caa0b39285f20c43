-- row: 0
-- where: pod
-- expect: error
-- says: must be a table
local step = ipairs({})
return step('x', 0)
