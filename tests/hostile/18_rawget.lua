-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'rawget'
rawget(_ENV, 'x')
