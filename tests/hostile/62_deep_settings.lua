-- row: 62
-- where: file
-- expect: load
-- says: must be a text
local t = {}
for i = 1, 10000 do t = { t } end
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end, settings = { x = { type = 'list', of = 'string', default = t } } }
