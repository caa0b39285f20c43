-- row: 0
-- where: pod
-- expect: error
-- says: invalid key to 'next'
return next({}, 'x')
