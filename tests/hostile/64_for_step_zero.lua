-- row: 64
-- where: pod
-- expect: error
-- says: 'for' step is zero
for i = 1, 10, 0 do end
