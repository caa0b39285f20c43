-- row: 64
-- where: pod
-- expect: ok
-- says: -9223372036854775808
return fence.skip(tostring(math.mininteger // -1))
