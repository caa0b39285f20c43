-- row: 50
-- where: pod
-- expect: error
-- says: did you mean 'delete_pod'?
return fence['delte' .. '_pod']('x')
