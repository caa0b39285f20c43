-- row: 64
-- where: pod
-- expect: error
-- says: attempt to compare two userdata values
return fence.skip(tostring(pod < node))
