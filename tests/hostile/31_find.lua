-- row: 31
-- where: pod
-- expect: error
-- says: unknown function 'find' of 'string'
('aaa'):find('a-a-b')
