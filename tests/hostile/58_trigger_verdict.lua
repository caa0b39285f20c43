-- row: 58
-- where: file
-- expect: load
-- says: make it inside of pod()
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  trigger = function() return fence.skip('x') end }
