-- row: 51
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: must be a volume of this pod
return fence.delete_attachments('x', { pod.raw:get('metadata.ownerReferences')[1] })
