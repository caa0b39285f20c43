-- row: 58
-- where: file
-- expect: load
-- says: from 0 to 1000000000
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  trigger = function() return { interval = 1e18 } end }
