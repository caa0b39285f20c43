-- row: 64
-- where: pod
-- expect: error
-- says: attempt to compare
return fence.skip(tostring(1 < 'x'))
