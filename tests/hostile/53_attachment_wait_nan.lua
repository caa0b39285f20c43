-- row: 53
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: must be a number of seconds from 0 on
return fence.delete_attachments('x', pod.volumes, { wait = 0/0 })
