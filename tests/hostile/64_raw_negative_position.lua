-- row: 64
-- where: pod
-- expect: ok
-- says: nil nil
local r = pod.raw
return fence.skip(tostring(r:get('spec.containers.-1')) .. ' ' .. tostring(r:get('spec.containers.99999999999999999999')))
