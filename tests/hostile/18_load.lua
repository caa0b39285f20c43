-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'load'
load('return 1')()
