-- row: 40
-- where: pod
-- expect: error
-- says: …
local s = 'abcde'
for i = 1, 17 do s = s .. s end
error(s)
