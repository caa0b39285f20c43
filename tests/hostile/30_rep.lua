-- row: 30
-- where: pod
-- expect: error
-- says: unknown function 'rep' of 'string'
('x'):rep(1e9)
