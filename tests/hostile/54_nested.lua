-- row: 54
-- where: file
-- expect: load
-- says: called twice
return policy(policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end })
