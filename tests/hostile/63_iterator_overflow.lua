-- row: 0
-- where: pod
-- expect: error
-- says: a position of the list
local step = ipairs({})
return step({}, math.maxinteger)
