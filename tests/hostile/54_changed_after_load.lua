-- row: 54
-- where: file
-- expect: error
-- says: it was a function at load
local spec = { api = 1, name = 'test', version = '1.0.0', summary = 's' }
local calls = 0
spec.pod = function() end
spec.trigger = function() calls = calls + 1 return {} end
local p = policy(spec)
spec.pod = 'delete_pod'
return p
