-- row: 1
-- where: pod
-- expect: instructions
while true do end
