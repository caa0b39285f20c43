-- row: 54
-- where: pod
-- expect: error
-- says: called twice
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end }
