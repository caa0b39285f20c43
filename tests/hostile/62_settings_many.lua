-- row: 62
-- where: file
-- expect: load
-- says: has more than 64 entries
local t = {}
for i = 1, 1000 do t['s' .. i] = { type = 'string', default = '' } end
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end, settings = t }
