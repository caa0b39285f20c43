-- row: 43
-- where: pod
-- expect: load
-- says: unknown global 'os'
os.time()
