-- row: 58
-- where: file
-- expect: load
-- says: must be a number of seconds
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  source = { every = 0/0, expiry = '1h', plan = function() end, nodes = function() end } }
