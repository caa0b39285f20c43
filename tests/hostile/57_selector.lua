-- row: 57
-- where: file
-- expect: load
-- says: no label selector
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end, select = { labels = 'a in (' } }
