-- row: 58
-- where: file
-- expect: load
-- says: at least 1s
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  trigger = function() return { failures = 2, interval = '0s' } end }
