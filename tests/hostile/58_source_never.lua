-- row: 58
-- where: file
-- expect: load
-- says: source.every must be from 1s to 1h
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  source = { every = '0s', expiry = '1h', plan = function() end, nodes = function() end } }
