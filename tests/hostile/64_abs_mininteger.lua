-- row: 64
-- where: pod
-- expect: error
-- says: has no positive counterpart
return fence.skip(tostring(math.abs(math.mininteger)))
