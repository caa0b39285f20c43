-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'package'
return package.loaded
