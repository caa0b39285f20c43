-- row: 59
-- where: pod
-- expect: ok
-- says: alive
for i = 1, 1000 do log.warn('a\n\27[31m') end
return fence.skip('alive')
