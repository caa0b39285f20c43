-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'dofile'
dofile('/etc/passwd')
