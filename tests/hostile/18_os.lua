-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'os'
os.execute('true')
