-- row: 64
-- where: pod
-- expect: ok
-- says: nil nil nil
local o = pod.owners
return fence.skip(tostring(o[math.mininteger]) .. ' ' .. tostring(o[0]) .. ' ' .. tostring(o[math.maxinteger]))
