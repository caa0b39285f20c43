-- row: 31
-- where: pod
-- expect: error
-- says: unknown function 'match' of 'string'
('aaa'):match('a-a-b')
