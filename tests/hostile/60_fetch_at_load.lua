-- row: 60
-- where: file
-- expect: load
-- says: requests are made inside of fetch(), node_fetch() and source.plan()
local kept = fence.http('storage', '/v2')
return policy { api = 1, name = 'test', version = '1.0.0', summary = 's', pod = function() end, fetch = function() return { a = kept } end }
