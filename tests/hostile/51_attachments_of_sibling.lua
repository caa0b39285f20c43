-- row: 51
-- where: pod
-- more: needs = { 'volumes', 'siblings' },
-- expect: error
-- says: must be a volume of this pod
return fence.delete_attachments('x', { pod.siblings[1] })
