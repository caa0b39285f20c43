-- row: 58
-- where: file
-- expect: load
-- says: must be a number of seconds
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  trigger = function() return { failures = 2, interval = 0/0 } end }
