-- row: 64
-- where: pod
-- expect: error
-- says: select: argument 1 is out of range
return fence.skip(tostring(select(math.mininteger, 1)))
