-- row: 60
-- where: fetch
-- expect: error
-- says: more than 64 requests made in one call
local wanted = {}
for i = 1, 10000 do wanted['r' .. i] = fence.http('storage', '/v2/volumes/' .. i) end
return wanted
