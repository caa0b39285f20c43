-- row: 51
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: argument 2[1] must be a volume of this pod, one of pod.volumes or pod.claims, not a table
return fence.delete_attachments('x', { { name = 'data', pv = 'pvc-9', driver = 'csi.example.com' } })
