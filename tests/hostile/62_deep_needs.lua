-- row: 62
-- where: file
-- expect: load
-- says: needs[1] must be a text
local t = {}
for i = 1, 10000 do t = { t } end
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end, needs = t }
