-- row: 64
-- where: pod
-- expect: error
-- says: attempt to perform arithmetic on a string value
return fence.skip('x' .. ('10' + 1))
