-- row: 0
-- where: pod
-- expect: error
-- says: call it with a colon
local get = pod.raw.get
return get({}, 'x')
