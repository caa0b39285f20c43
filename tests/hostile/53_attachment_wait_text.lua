-- row: 53
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: is no duration
local s = '9' for i = 1, 16 do s = s .. s end
return fence.delete_attachments('x', pod.volumes, { wait = s })
