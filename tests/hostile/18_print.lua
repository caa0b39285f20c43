-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'print'
print(1)
