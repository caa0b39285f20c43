-- row: 49
-- where: pod
-- expect: ok
-- says: a\nb\x1b[31m
return fence.skip('a\nb\27[31m')
