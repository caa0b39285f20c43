-- row: 15
-- where: pod
-- expect: load
-- says: cannot set global 'fence'
fence = nil
