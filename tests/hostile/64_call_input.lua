-- row: 64
-- where: pod
-- expect: error
-- says: attempt to call
return pod()
