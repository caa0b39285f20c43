-- row: 17
-- where: pod
-- expect: load
-- says: cannot set global 'fence'
_ENV.fence = nil
