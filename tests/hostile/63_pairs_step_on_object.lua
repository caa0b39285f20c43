-- row: 0
-- where: pod
-- expect: ok
-- says: nil
local step = pairs(pod.labels)
return fence.skip(tostring(step(pod, nil)))
