-- row: 18
-- where: pod
-- expect: load
-- says: unknown global '_G'
return _G
