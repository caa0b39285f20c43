-- row: 48
-- where: pod
-- expect: error
-- says: pod returned a boolean
return true
