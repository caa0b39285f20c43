-- row: 64
-- where: pod
-- expect: error
-- says: string.format: 
return fence.skip(string.format('%d', 0/0))
