-- row: 60
-- where: fetch
-- expect: instructions
while true do end
