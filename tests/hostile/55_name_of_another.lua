-- row: 55
-- where: file
-- expect: load
-- says: the file's name demands 'test'
return policy { api = 1, name = 'noobaa' }
