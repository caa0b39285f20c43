-- row: 51
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: it has no attachment
return fence.delete_pod_and_attachments('x', pod.claims)
