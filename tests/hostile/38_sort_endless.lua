-- row: 38
-- where: pod
-- expect: instructions
table.sort({ 3, 2, 1 }, function() while true do end end)
