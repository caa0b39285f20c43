-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'debug'
debug.getregistry()
