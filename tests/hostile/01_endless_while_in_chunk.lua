-- row: 1
-- where: file
-- expect: instructions
while true do end
