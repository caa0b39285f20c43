-- row: 61
-- where: pod
-- expect: instructions
for i = 1, 1e9 do end
return fence.skip('alive')
