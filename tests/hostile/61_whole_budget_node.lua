-- row: 61
-- where: node
-- expect: instructions
for i = 1, 1e9 do end
return fence.proceed('alive')
