-- row: 64
-- where: pod
-- expect: ok
-- says: true
return fence.skip(tostring(('a\0b'):glob('a?b')))
