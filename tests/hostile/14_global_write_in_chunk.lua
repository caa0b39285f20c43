-- row: 14
-- where: file
-- expect: load
-- says: cannot set global 'x'
x = 1
