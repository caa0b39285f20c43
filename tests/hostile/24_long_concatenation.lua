-- row: 24
-- where: pod
-- expect: load ok memory
local s = 'a'
--@ repeat 15000 ..'a'
return fence.skip('alive')
