-- row: 57
-- where: file
-- expect: load
-- says: at most 4096 bytes
local s = 'aaaaaaaaaa'
for i = 1, 14 do s = s .. s end
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end, select = { labels = s } }
