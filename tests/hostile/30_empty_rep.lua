-- row: 30
-- where: pod
-- expect: error
-- says: unknown function 'rep' of 'string'
(''):rep(1 << 62)
