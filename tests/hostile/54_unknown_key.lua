-- row: 54
-- where: file
-- expect: load
-- says: unknown key 'polcy'
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end, polcy = 1 }
