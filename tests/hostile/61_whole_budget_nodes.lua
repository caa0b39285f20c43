-- row: 61
-- where: nodes
-- expect: instructions
for i = 1, 1e9 do end
return {}
