-- row: 55
-- where: file
-- expect: load
-- says: a name is [a-z]
return policy { api = 1, name = '../x' }
