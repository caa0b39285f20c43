-- row: 64
-- where: pod
-- expect: error
-- says: attempt to concatenate
return fence.skip('x' .. pod)
