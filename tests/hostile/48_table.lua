-- row: 48
-- where: pod
-- expect: error
-- says: pod returned a table
return { kind = 'delete_pod', reason = 'x' }
