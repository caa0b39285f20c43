-- row: 58
-- where: file
-- expect: instructions
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end,
  source = function() while true do end end }
