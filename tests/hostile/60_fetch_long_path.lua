-- row: 60
-- where: fetch
-- expect: error
-- says: must have at most 1024 bytes
local s = '/' for i = 1, 15 do s = s .. s:sub(1) end
local p = '/' for i = 1, 12 do p = p .. 'abc' .. p:sub(2) end
return { a = fence.http('storage', p) }
