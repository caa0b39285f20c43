-- row: 64
-- where: pod
-- expect: ok
-- says: nil nil
local s = 'abc'
return fence.skip(tostring(s:byte(math.mininteger)) .. ' ' .. tostring(s:byte(math.maxinteger)))
