-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'io'
io.open('/etc/passwd')
