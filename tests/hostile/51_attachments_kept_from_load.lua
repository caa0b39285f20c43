-- row: 51
-- where: file
-- expect: load
-- says: unknown global 'pod'
local kept = pod
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() return fence.delete_attachments('x', { kept }) end }
