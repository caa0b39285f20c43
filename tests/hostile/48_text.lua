-- row: 48
-- where: pod
-- expect: error
-- says: pod returned a text
return 'delete_pod'
