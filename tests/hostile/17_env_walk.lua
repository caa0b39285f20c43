-- row: 17
-- where: pod
-- expect: ok
-- says: found 0
local n = 0
for _ in next, _ENV do n = n + 1 end
return fence.skip('found ' .. n)
