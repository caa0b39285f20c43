-- row: 51
-- where: pod
-- expect: error
-- says: make it inside of node()
return fence.proceed('x')
