-- row: 48
-- where: pod
-- expect: error
-- says: pod returned nil

