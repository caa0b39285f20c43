-- row: 31
-- where: pod
-- expect: error
-- says: unknown function 'gsub' of 'string'
('aaa'):gsub('a-a-b')
