-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'rawset'
rawset(_ENV, 'x', 1)
