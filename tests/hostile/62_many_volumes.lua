-- row: 62
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: claims 5000 volumes; the pod has 3
local t = {}
local v = pod.volumes[1]
for i = 1, 5000 do t[i] = v end
return fence.delete_attachments('x', t)
