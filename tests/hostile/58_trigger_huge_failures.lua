-- row: 58
-- where: file
-- expect: load
-- says: from 1 to 1000
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  trigger = function() return { failures = 1e18 } end }
