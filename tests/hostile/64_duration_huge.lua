-- row: 64
-- where: pod
-- expect: error
-- says: is no duration
return fence.skip(tostring(duration('99999999999999999999h')))
