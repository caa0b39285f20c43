-- row: 62
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: must be a volume of this pod
local t = {} t[1] = t
return fence.delete_attachments('x', t)
