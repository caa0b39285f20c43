-- row: 0
-- where: pod
-- expect: error
-- says: must be an input
local step = pairs(pod.labels)
return step({}, nil)
