-- row: 62
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: argument 2 must be a list of volumes
return fence.delete_pod_and_attachments('x', { release = true }, { release = true })
