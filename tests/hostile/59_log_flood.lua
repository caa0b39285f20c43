-- row: 59
-- where: pod
-- expect: instructions
for i = 1, 1000000 do log.info('line ' .. i) end
