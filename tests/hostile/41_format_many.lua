-- row: 41
-- where: pod
-- expect: memory instructions
local t = {}
while true do table.insert(t, string.format('%99s%99s%99s', 'a', 'b', 'c') .. #t) end
