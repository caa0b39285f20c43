-- row: 50
-- where: pod
-- expect: load
-- says: did you mean 'delete_pod'?
return fence.delte_pod('x')
