-- row: 2
-- where: pod
-- expect: instructions
for i = 1, 1e18 do end
