-- row: 31
-- where: pod
-- expect: error
-- says: unknown function 'gmatch' of 'string'
('aaa'):gmatch('a-a-b')
