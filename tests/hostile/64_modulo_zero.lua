-- row: 64
-- where: pod
-- expect: error
-- says: attempt to perform 'n%
return fence.skip(tostring(1 % 0))
