-- row: 64
-- where: pod
-- expect: ok
-- says: 0 0
return fence.skip((1 << math.maxinteger) .. ' ' .. (1 >> math.mininteger))
