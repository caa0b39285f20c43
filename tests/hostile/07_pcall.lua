-- row: 7
-- where: pod
-- expect: load
-- says: unknown global 'pcall'
pcall(error)
