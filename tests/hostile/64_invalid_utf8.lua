-- row: 64
-- where: pod
-- expect: ok
return fence.skip('a\xff\xc0\x80b')
