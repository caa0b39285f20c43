-- row: 60
-- where: fetch
-- expect: error
-- says: as a name; a name has 1 to 253 bytes
local s = 'x' for i = 1, 18 do s = s .. s end
return { [s] = fence.http('storage', '/v2') }
