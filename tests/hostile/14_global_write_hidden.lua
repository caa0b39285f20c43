-- row: 14
-- where: pod
-- expect: error
-- says: cannot set global 'x'
local name = 'x'
local function write(env) env[name] = 1 end
write(_ENV)
