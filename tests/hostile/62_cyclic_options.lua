-- row: 62
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: order must be a text, not a table
local t = {} t.order = t
return fence.delete_attachments('x', pod.volumes, t)
