-- row: 62
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: volumes; the pod has 3
local t = {}
local k = 1
while k > 0 and k <= 1 << 62 do t[k] = pod.volumes[1]; k = k * 2 end
for i = 1, 9 do t[i] = pod.volumes[1] end
return fence.delete_attachments('x', t)
