-- row: 60
-- where: plan
-- expect: error
-- says: more than 64 requests
local t = {}
for i = 1, 10000 do t[i] = fence.http('storage', '/' .. i) end
return t
