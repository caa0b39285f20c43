-- row: 60
-- where: nodes
-- expect: memory instructions
local t = {}
for i = 1, 60000 do t['node-' .. i] = 'failed' end
return t
