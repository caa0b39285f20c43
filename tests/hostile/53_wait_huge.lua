-- row: 53
-- where: pod
-- expect: ok
-- says: x
return fence.wait('x', math.huge)
