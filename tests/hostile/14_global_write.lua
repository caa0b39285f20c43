-- row: 14
-- where: pod
-- expect: load
-- says: cannot set global 'x'
x = 1
