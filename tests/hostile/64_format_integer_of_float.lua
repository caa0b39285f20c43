-- row: 64
-- where: pod
-- expect: error
-- says: string.format: 
return fence.skip(string.format('%d', 1e300))
