-- row: 53
-- where: pod
-- expect: error
-- says: 0/0
return fence.wait('x', 0 / 0)
