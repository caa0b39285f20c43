-- row: 64
-- where: pod
-- expect: ok
-- says: a\x00b
return fence.skip('a\0b')
