-- row: 60
-- where: fetch
-- expect: error
-- says: more than 8 requests in one round
local wanted = {}
for i = 1, 9 do wanted['r' .. i] = fence.http('storage', '/v2/volumes/' .. i) end
return wanted
