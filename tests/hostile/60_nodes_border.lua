-- row: 60
-- where: nodes
-- expect: error
-- says: a table with an integer as a key
local t = {}
local k = 1
while k > 0 and k <= 1 << 62 do t[k] = 'failed'; k = k * 2 end
return t
