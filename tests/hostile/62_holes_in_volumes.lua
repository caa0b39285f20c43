-- row: 62
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: plain list without other keys or holes
return fence.delete_attachments('x', { pod.volumes[1], [3] = pod.volumes[2] })
