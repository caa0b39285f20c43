-- row: 64
-- where: pod
-- expect: ok
-- says: <abc><><>
local s = 'abc'
return fence.skip('<' .. s:sub(math.mininteger, math.maxinteger) .. '><' .. s:sub(math.maxinteger, math.mininteger) .. '><' .. s:sub(math.maxinteger) .. '>')
