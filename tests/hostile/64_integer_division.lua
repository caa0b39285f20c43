-- row: 64
-- where: pod
-- expect: error
-- says: attempt to divide by zero
return fence.skip(tostring(1 // 0))
